"""The C++ compiler and linker, both of them programs inside the PyPI package ``ziglang``."""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cuvil.errors import TargetError
from cuvil.target.base import Target, Variant

CXX_FLAGS = (
    "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fPIC", "-fvisibility=hidden",
    "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-nostdlib",
    "-fno-stack-protector", "-fno-sanitize=all", "-ffunction-sections", "-fdata-sections",
    "-fno-asynchronous-unwind-tables", "-g0",
)  # fmt: skip
# A model's operators round their results, each by itself: a product and a sum of two operators must
# not become one multiply-add. A maximum that was subtracted from what it was found in would leave
# what rounding took off, which is large where numbers are. In kernels written by hand it may.
MODEL_FLAGS = ("-ffp-contract=on",)
LINK_FLAGS = (
    "-shared", "--gc-sections", "-s", "-z", "defs", "-z", "now", "-z", "noseparate-code",
    "--hash-style=gnu", "--build-id=none",
)  # fmt: skip
OBJECT = ("-c",)
LLVM_TEXT = ("-S", "-emit-llvm")
_EXPORTS = "{ global: cuvil_*; local: *; };\n"
# A stack that overflows must trap, not write over data: it lies first. What is exported is what
# has default visibility: the functions of abi.h, and those for the host (native/wasm.hpp).
WASM_LINK_FLAGS = (
    "--no-entry", "--export-dynamic", "--gc-sections", "--strip-all", "--stack-first",
    "-z", "stack-size=262144",
)  # fmt: skip
_ERROR_LINES = 12
_PLACE_HINT = "set CUVIL_CACHE_DIR to a folder that can be written and has space"


def compiler_path() -> Path:
    """The zig program. Raises TargetError if ``ziglang`` is not installed."""
    spec = importlib.util.find_spec("ziglang")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in places:
        for name in ("zig", "zig.exe"):
            if (Path(folder) / name).is_file():
                return Path(folder) / name
    raise TargetError(
        "compiling needs the package ziglang, which is not installed",
        hint="pip install ziglang",
        stage="build",
    )


def compiler_version() -> str:
    """The version of ``ziglang``. Raises TargetError if it is not installed."""
    try:
        return importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError:
        return f"unknown ({compiler_path()})"


def compile_flags(
    target: Target,
    opt_level: int = 3,
    *,
    baseline: bool = False,
    variant: Variant | None = None,
) -> list[str]:
    """Flags that decide an object's code; ``baseline`` is for code that any CPU must run,
    ``variant`` for that of one kind of CPU among several."""
    mcpu = target.baseline_mcpu if baseline else target.mcpu
    defines, more = target.defines, target.cxx_flags
    if variant is not None:
        mcpu, defines = variant.mcpu, target.variant_defines(variant)
        more = (*more, *variant.cxx_flags)
    return [
        "-target", target.triple, f"-mcpu={mcpu}", f"-O{opt_level}", *CXX_FLAGS, *defines, *more
    ]  # fmt: skip


def compile_object(
    source: str,
    name: str,
    flags: Sequence[str],
    include_dir: Path,
    scratch: Path,
    make: Sequence[str] = OBJECT,
) -> bytes:
    """One translation unit to an object file's bytes, or what else ``make`` asks for.

    ``scratch`` is a folder for temporary files; ``name`` appears in messages; C++ unless it ends in
    .ll. Raises TargetError with the compiler's first lines.
    """
    with work_folder(scratch) as work:
        suffix = ".ll" if name.endswith(".ll") else ".cpp"
        unit = Path(work) / f"{_plain(name.removesuffix(suffix))}{suffix}"
        unit.write_text(source, encoding="utf-8")
        made = Path(work) / "out.o"
        command = [
            str(compiler_path()), "c++", *flags, "-I", str(include_dir), *make, str(unit),
            "-o", str(made),
        ]  # fmt: skip
        call_compiler(command, work, f"the C++ compiler refused {name}")
        return made.read_bytes()


def link(objects: Mapping[str, bytes], target: Target, scratch: Path) -> bytes:
    """Objects (by name) to the bytes of a shared library, or of a WebAssembly module; it exports
    cuvil_* and depends on nothing.

    Raises TargetError, also for a symbol that nothing defines.
    """
    if target.arch != "wasm32" and "linux" not in target.triple:
        raise TargetError(f"linking for {target.triple} is not supported", stage="build")
    with work_folder(scratch) as work:
        paths = _written(objects, Path(work))
        made = Path(work) / "out"
        linker = _wasm_linker() if target.arch == "wasm32" else _library_linker(Path(work))
        command = [
            str(compiler_path()), *linker, *target.link_flags, *paths, "-o", str(made),
        ]  # fmt: skip
        call_compiler(command, work, "the linker refused the model's objects")
        return made.read_bytes()


def link_program(objects: Mapping[str, bytes], scratch: Path) -> bytes:
    """Objects (by name) to a static program that begins at ``_start``; raises TargetError."""
    with work_folder(scratch) as work:
        paths = _written(objects, Path(work))
        made = Path(work) / "out"
        command = [
            str(compiler_path()), "ld.lld", "-static", "--gc-sections", "-s", "--build-id=none",
            "-e", "_start", *paths, "-o", str(made),
        ]  # fmt: skip
        call_compiler(command, work, "the linker refused the program's objects")
        return made.read_bytes()


def _written(objects: Mapping[str, bytes], folder: Path) -> list[str]:
    """The paths of the objects' files."""
    paths = []
    for index, (name, data) in enumerate(objects.items()):
        path = folder / f"{index}_{_plain(name)}.o"
        path.write_bytes(data)
        paths.append(str(path))
    return paths


def _library_linker(work: Path) -> list[str]:
    exports = work / "exports.map"
    exports.write_text(_EXPORTS)
    return ["ld.lld", *LINK_FLAGS, f"--version-script={exports}"]


def _wasm_linker() -> list[str]:
    return ["wasm-ld", *WASM_LINK_FLAGS]


@contextlib.contextmanager
def work_folder(scratch: Path) -> Iterator[str]:
    """A folder for one call. An OSError inside becomes a TargetError that names the folder."""
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(dir=scratch, prefix="cc-", ignore_cleanup_errors=True)
        with made as folder:
            yield folder
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = f"no space left in {scratch}"
        else:
            what = f"the compiler has no place to work in: {error}"
        raise TargetError(what, hint=_PLACE_HINT, stage="build") from None


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)[:80]


def call_compiler(command: list[str], work: str, what: str) -> None:
    # zig keeps caches of its own; ours is enough, so those live and die with this call.
    caches = {"ZIG_GLOBAL_CACHE_DIR": f"{work}/zig", "ZIG_LOCAL_CACHE_DIR": f"{work}/zig"}
    try:
        done = subprocess.run(
            command, cwd=work, env={**os.environ, **caches}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    except OSError as error:
        raise TargetError(f"{what}: it could not be started: {error}", stage="build") from None
    if done.returncode == 0:
        return
    if done.returncode < 0:
        number = -done.returncode
        name = signal.strsignal(number) or "unknown"
        # A linker writes through a mapping, where a full disk shows as a bus error.
        cause = f": usually no space is left in {work}" if number == signal.SIGBUS else ""
        raise TargetError(
            f"{what}: it was killed by signal {number} ({name.lower()}{cause})",
            hint=_PLACE_HINT if cause else "check the machine's memory and limits",
            stage="build",
        )
    lines = done.stdout.decode("utf-8", "replace").replace(work + "/", "").splitlines()
    errors = [i for i, line in enumerate(lines) if "error:" in line]
    first = errors[0] if errors else 0
    text = "\n".join(f"  {line}" for line in lines[first : first + _ERROR_LINES])
    if "No space left" in text or "NoSpaceLeft" in text:
        raise TargetError(f"no space left in {work}\n{text}", hint=_PLACE_HINT, stage="build")
    raise TargetError(f"{what} (exit code {done.returncode}):\n{text}", stage="build")
