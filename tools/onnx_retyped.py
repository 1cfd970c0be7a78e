"""No call ends the process: operators on every element type, at other sizes, with hostile values.

    python -m tools.onnx_retyped [--only PATTERN] [--types] [--sizes] [--calls N]

The onnx package's cases of one operator are the seeds. With --types each is captured once for each
element type that its schema allows, with --sizes with every dim a symbol of its own that gets other
sizes, 0 among them. A child process compiles a case and calls it, each tensor between pages
that can't be touched, with NaN, infinities, ends of the integers and indices out of range. What is
named on the way out died, ran for too long, or differs from the reference interpreter.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import os
import re
import resource
import signal
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ValueInfoProto, defs, helper

from cuvil.errors import CuvilError
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.core import Module
from cuvil.ir.types import DTYPES, DType
from cuvil.reference.interpreter import run_module
from tools.fenced import Fence
from tools.onnx_cases import NodeCase, node_cases
from tools.quick_build import quick_build

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]
TYPES = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool",
    **{f"{k}int{b}": f"{k or 'i'}{b}" for k in ("u", "") for b in (8, 16, 32, 64)},
}  # fmt: skip
NUMBERS = frozenset(DTYPES[name].numpy for name in TYPES.values() if name != "bool")
CLOSE = {"f64": (1e-9, 1e-10), "f32": (1e-4, 1e-5), "f16": (2e-2, 4e-3), "bf16": (6e-2, 2e-2)}
SECONDS, MEMORY = 60, 4 << 30


def seeds() -> Iterator[NodeCase]:
    """The cases of one operator whose inputs are tensors of numbers."""
    for case in node_cases():
        arrays = list(case.inputs.values())
        plain = all(isinstance(a, np.ndarray) and a.dtype.kind not in "OUST" for a in arrays)
        if case.operator and plain:
            yield case


def retyped(case: NodeCase) -> Iterator[NodeCase]:
    """The case with one of its type variables changed, for each type the schema lets it have."""
    node = case.model.graph.node[0]
    schema = defs.get_schema(node.op_type, case.version, node.domain)
    names: dict[str, set[str]] = {}
    for formals, given in ((schema.inputs, node.input), (schema.outputs, node.output)):
        for i, name in enumerate(given):
            names.setdefault(formals[min(i, len(formals) - 1)].type_str, set()).add(name)
    for variable in schema.type_constraints:
        mine = names.get(variable.type_param_str, set())
        now = {case.inputs[n].dtype for n in mine if n in case.inputs}
        for text in variable.allowed_type_strs if len(now) == 1 else ():
            name = TYPES.get(text.removeprefix("tensor(").removesuffix(")"))
            if name is not None and DTYPES[name].numpy not in now:
                yield _with_type(case, mine, DTYPES[name], variable.type_param_str)


def _with_type(case: NodeCase, names: set[str], dtype: DType, variable: str) -> NodeCase:
    proto = copy.deepcopy(case.model)
    declared: Sequence[ValueInfoProto] = (*proto.graph.input, *proto.graph.output)
    for value in declared:
        if value.name in names:
            code = helper.np_dtype_to_tensor_dtype(dtype.numpy)
            value.type.tensor_type.elem_type = code
    inputs = {k: _cast(v, dtype) if k in names else v for k, v in case.inputs.items()}
    return replace(case, name=f"{case.name}[{variable}={dtype}]", model=proto, inputs=inputs)


def _cast(array: Array, dtype: DType) -> Array:
    """Values of about the same size; numbers that are unsigned are made positive."""
    wide = np.nan_to_num(array.astype(np.float64), nan=3, posinf=7, neginf=-7)
    if dtype.name == "bool":
        return wide > 0.5
    if dtype.is_integer:
        ends = np.iinfo(dtype.numpy)
        wide = np.abs(wide) if dtype.kind == "u" else wide
        wide = np.clip(np.rint(wide), max(ends.min, -(2**62)), min(ends.max, 2**62))
    return wide.astype(np.float32 if dtype.name == "bf16" else np.float64).astype(dtype.numpy)


def hostile(array: Array, rng: np.random.Generator) -> Array:
    """Some or all elements replaced by what operators may stumble over."""
    if array.dtype not in NUMBERS or array.size == 0:
        return array
    pool: Array
    if array.dtype.kind in "iu":
        ends = np.iinfo(array.dtype)
        near = [*range(-12, 13)]
        far = [ends.min, ends.max, ends.min + 1, ends.max - 1, 0, 1, 100_000, -(2**40)]
        chosen = near if rng.random() < 0.6 else far
        pool = np.array([v for v in chosen if ends.min <= v <= ends.max], array.dtype)
    else:
        info = ml_dtypes.finfo(array.dtype)
        top, least = float(info.max), float(info.smallest_subnormal)
        numbers = [np.nan, np.inf, -np.inf, 0.0, -0.0, top, -top, least, -least, 0.5, -3.5, 2e16]
        pool = np.array(numbers).astype(array.dtype)
    hit = rng.random(array.shape) < rng.choice([0.1, 0.4, 1.0])
    return np.where(hit, rng.choice(pool, array.shape), array).astype(array.dtype)


def captured(case: NodeCase, dynamic: Mapping[str, Mapping[int, str]]) -> Module | None:
    """The case's module; inputs that must be constants are. None if it can't be captured."""
    for kinds in ("", "ib", "ibfV"):
        fixed = {k: v for k, v in case.inputs.items() if v.dtype.kind in kinds}
        free = {k: dims for k, dims in dynamic.items() if k not in fixed}
        try:
            return capture_onnx(case.model, dynamic=free, fixed_inputs=fixed)
        except CuvilError:
            continue
    return None


def symbolic(case: NodeCase) -> Module | None:
    """The case with as many symbolic dims as it can have: all, all but the last, the first."""
    proto = copy.deepcopy(case.model)
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    open_case = replace(case, model=proto)
    ranks = {k: v.ndim for k, v in case.inputs.items()}
    for keep in (lambda rank: rank, lambda rank: rank - 1, lambda rank: min(rank, 1)):
        dims = {k: {i: f"{k}_{i}" for i in range(keep(rank))} for k, rank in ranks.items()}
        module = captured(open_case, dims)
        if module is not None:
            return module
    return None


def other_sizes(module: Module, inputs: Inputs, rng: np.random.Generator) -> Inputs:
    """Inputs of other sizes in symbolic dims; what was equal mostly stays so."""
    chance, table, made = rng.choice([0.2, 0.5, 1.0]), dict[int, int](), dict[str, Array]()
    for name, value in zip(module.main.input_names, module.main.inputs, strict=True):
        shape = list(inputs[name].shape)
        for i, dim in enumerate(value.type.shape):
            if isinstance(dim, int) or rng.random() > chance:
                continue
            size = int(rng.choice([0, 0, 1, 2, 3, shape[i] + 1, shape[i] * 2]))
            shape[i] = table.setdefault(shape[i], size) if rng.random() < 0.75 else size
        made[name] = np.resize(inputs[name], shape).astype(inputs[name].dtype)
    return made


def different(got: Array, want: Array) -> str:
    """How they differ, or nothing."""
    name = next((d.name for d in DTYPES.values() if d.numpy == got.dtype), "")
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if name in CLOSE:
        same = np.isclose(
            *(a.astype(np.float64) for a in (got, want)), *CLOSE[name], equal_nan=True
        )
    else:
        same = (got == want) | ((got != got) & (want != want))
    at = tuple(np.argwhere(~same)[0]) if not same.all() else ()
    return "" if same.all() else f"{got[at]}, not {want[at]}"


def calls(case: NodeCase, module: Module, count: int) -> str:
    """Call it ``count`` times; how its results for the case's own values differ, or nothing."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    own = {k: np.asarray(case.inputs[k]) for k in module.main.input_names}
    folder = Path(tempfile.gettempdir()) / f"cuvil-retyped-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    wrong = ""
    with quick_build(module, folder, 0) as artifact:
        for number in range(count):
            inputs = other_sizes(module, own, rng) if number % 2 else own
            if number > 1:
                inputs = {k: hostile(v, rng) for k, v in inputs.items()}
            fence = Fence(at_end=number % 3 != 2)
            try:
                found = fence.run(artifact, module, inputs)
            except (CuvilError, MemoryError):
                continue  # a call that is refused is not at fault
            finally:
                fence.close()
            if number < 2 and not wrong:
                wanted = run_module(module, inputs)
                problems = [different(g, np.asarray(w)) for g, w in zip(found, wanted, strict=True)]
                wrong = next((p for p in problems if p), "")
    return wrong


def in_a_child(work: Callable[[], str], seconds: float = SECONDS) -> str:
    """What ``work`` returns, run in a child process; or how that ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode()[:2000])
        os._exit(0)
    os.close(writing)
    end, status = time.monotonic() + seconds, 0
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode()
    if not os.WIFSIGNALED(status):
        return told
    late = time.monotonic() > end
    return f"ran for {seconds} s" if late else signal.Signals(os.WTERMSIG(status)).name


def sweep(only: str, types: bool, sizes: bool, count: int) -> Iterator[tuple[str, str]]:
    """(case, what is wrong with it)"""
    for seed in seeds():
        if not re.search(only, seed.operator):
            continue
        variants: list[tuple[NodeCase, Module | None]] = []
        if sizes:
            variants.append((seed, symbolic(seed)))
        if types:
            variants += [(case, captured(case, {})) for case in retyped(seed)]
        for case, module in variants:
            if module is None or module.call.get("host"):
                continue
            told = in_a_child(lambda: calls(case, module, count))  # noqa: B023
            if told:
                yield case.name, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a pattern for domain and name of operators")
    parser.add_argument("--types", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--calls", type=int, default=20)
    given = parser.parse_args()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, told in sweep(given.only, given.types, given.sizes, given.calls):
            print(name, told, flush=True)


if __name__ == "__main__":
    main()
