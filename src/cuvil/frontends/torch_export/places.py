"""Which line of a model's code is being traced, and which operator of torch it came to."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import cuvil
from cuvil.frontends.alone import replaced
from cuvil.frontends.torchscript.control import place_of as script_place
from cuvil.frontends.torchscript.replay import Replay

_TORCH = str(Path(torch.__file__).parent)
_LAYERS = str(Path(_TORCH) / "nn")  # torch's own layers, named where no user's line is known
_TRACER = str(Path(__file__).with_name("program.py"))
_REPLAY = str(inspect.getfile(Replay))
_OWN = (_TORCH, str(Path(cuvil.__file__).parent), "<")  # whose lines are no user's code


@contextmanager
def guard_places() -> Iterator[dict[str, str]]:
    """Notes the place in the model at which each guard arises, by the guard's text."""
    places: dict[str, str] = {}
    env: Any = ShapeEnv
    original: Any = getattr(env, "_log_guard", None)
    if original is None:
        yield places
        return

    def noted(self: Any, prefix: str, guard: Any, *args: Any, **kwargs: Any) -> Any:
        text = str(guard)
        if text not in places:
            places[text] = _place(_outwards(sys._getframe(1)))
        return original(self, prefix, guard, *args, **kwargs)

    with replaced(env, {"_log_guard": noted}):
        yield places


def user_line() -> str:
    """The innermost line of user code that called this, inside the model: ``file:line`` or ""."""
    return _line(_outwards(sys._getframe(1)))[0]


def place_of(error: BaseException) -> str:
    """The place in the model that an error came through, as :func:`guard_places` has it."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return _place(reversed(frames))


def _outwards(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    """Frames with their lines, the innermost first, up to who asked for the capture."""
    while frame is not None and frame.f_code.co_filename != _TRACER:
        yield frame, frame.f_lineno
        frame = frame.f_back


def _place(frames: Iterable[tuple[FrameType, int]]) -> str:
    """``file:line, operator`` with what is known of it."""
    known = list(frames)
    line, layer = _line(known)
    found = [text for text in (line or layer, _operator(known)) if text]
    return ", ".join(found)


def _line(frames: Iterable[tuple[FrameType, int]]) -> tuple[str, str]:
    """The innermost line of user code, and that of a layer of torch's inside it."""
    layer = ""
    for frame, line in frames:
        name = frame.f_code.co_filename
        if not name.startswith(_OWN):
            return f"{Path(name).name}:{line}", layer
        if name == _REPLAY and (script := _script_line(frame)):
            return script, layer
        if not layer and name.startswith(_LAYERS):
            layer = f"torch/{Path(name).relative_to(_TORCH).as_posix()}:{line}"
    return "", layer


def _script_line(frame: FrameType) -> str:
    """The line of the script whose node is replayed in a frame, as far as it was kept."""
    if frame.f_code.co_name != "_node":
        return ""
    place = script_place(frame.f_locals["node"])
    return "" if "::" in place else place


def _operator(frames: Iterable[tuple[FrameType, int]]) -> str:
    """The operator that torch was deriving shapes for: the outermost inside the user's line."""
    found = ""
    for frame, _ in frames:
        name = frame.f_code.co_filename
        if not name.startswith(_OWN):
            return found
        if frame.f_code.co_name.endswith("dispatch__"):
            function = frame.f_locals.get("func")
            if isinstance(function, OpOverload):
                found = str(function.overloadpacket)
    return found
