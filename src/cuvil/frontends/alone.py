"""One thread at a time where the state of a whole framework is changed or relied on.

To trace a model, functions and settings of torch, of its loggers and of Python's warnings are
replaced and put back. They are the process's, as torch's own tracing is: threads that did so at
once would meet each other's replacements, and put them back as what had been before.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

_DYNAMO = "torch._dynamo.convert_frame"
_PATIENCE = 60.0  # seconds that a fork waits for a thread that is tracing

Found = TypeVar("Found")


def _of_dynamo() -> Any:
    """The lock that torch.compile holds while it calls its backend; None before it is loaded."""
    return getattr(sys.modules.get(_DYNAMO), "compile_lock", None)


class Alone:
    """A lock that its owner may take again. Torch.compile's is taken first, always in this order:
    tracing may call torch.compile, which may call Cuvil as its backend."""

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        self._forking = threading.local()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, no other thread is inside. Works as a decorator too."""
        outer = None if self._lock._is_owned() else _of_dynamo()
        if outer is None:
            with self._lock:
                yield
            return
        with outer, self._lock:
            yield

    def before_fork(self) -> None:
        """Wait until no other thread has replaced what a child would keep for good."""
        self._forking.waited = self._lock.acquire(timeout=_PATIENCE)

    def in_parent(self) -> None:
        """After a fork."""
        if self._forking.waited:
            self._lock.release()

    def in_child(self) -> None:
        """After a fork: what another thread held, nobody would ever release."""
        self.in_parent()
        for lock in (self._lock, _of_dynamo()):
            if lock is not None and not lock._is_owned():
                lock._at_fork_reinit()


def in_this_thread(inside: Callable[..., Found], others: Callable[..., Found]
                   ) -> Callable[..., Found]:  # fmt: skip
    """A function that stands for ``others`` everywhere, and is ``inside`` in the thread that asks:
    a replacement that the rest of the process doesn't notice."""
    owner = threading.get_ident()

    @functools.wraps(others)
    def call(*args: Any, **kwargs: Any) -> Found:
        return (inside if threading.get_ident() == owner else others)(*args, **kwargs)

    return call


ALONE = Alone()


@contextmanager
def replaced(holder: Any, functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Inside, and in this thread, ``holder`` has these functions; uses may be nested."""
    with ALONE.held():
        own = vars(holder)
        before = {name: own[name] for name in functions if name in own}
        try:
            for name, function in functions.items():
                setattr(holder, name, in_this_thread(function, getattr(holder, name)))
            yield
        finally:
            for name in functions:
                if name in before:
                    setattr(holder, name, before[name])
                elif name in own:  # what it looks up elsewhere
                    delattr(holder, name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ALONE.before_fork, after_in_parent=ALONE.in_parent, after_in_child=ALONE.in_child
    )
