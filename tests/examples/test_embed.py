"""Programs in C, C++, Rust and Go that embed an artifact: built, run, held against NumPy."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import cuvil
from cuvil.build.driver import compiler_path
from cuvil.package.hash64 import hash64
from tests.examples.conftest import EXAMPLES, inputs

EMBED = EXAMPLES / "embed"
LINK = ("model.so", "-Wl,-rpath,$ORIGIN")
STRICT = ("-O2", "-Wall", "-Wextra", "-Werror", "-I.")


@dataclass(frozen=True)
class Language:
    """The compiler's program (empty: the one that comes with Cuvil), and its command line."""

    compiler: str
    source: str
    command: Callable[[str, str], list[str]]  # source and output


def _c(compiler: str, *flags: str) -> Callable[[str, str], list[str]]:
    head = compiler.split() or [str(compiler_path()), "cc", "-fno-sanitize=all"]
    return lambda source, out: [*head, *flags, *STRICT, source, *LINK, "-o", out]


def _rust(source: str, out: str) -> list[str]:
    return ["rustc", "-O", "-D", "warnings", source, *(f"-Clink-arg={a}" for a in LINK), "-o", out]


def _go(source: str, out: str) -> list[str]:
    shutil.copy(source, "main.go")
    return ["go", "build", "-o", out, "main.go"]


LANGUAGES = {
    "c": Language("", "c/run_artifact.c", _c("", "-std=c11")),
    "c with gcc": Language("gcc", "c/run_artifact.c", _c("gcc", "-std=gnu11")),
    "c++": Language("g++", "cpp/main.cpp", _c("g++", "-std=c++17", "-pthread")),
    "rust": Language("rustc", "rust/main.rs", _rust),
    "go": Language("go", "go/main.go", _go),
}


def _works(compiler: str) -> bool:
    """Whether it is there and says its version: rustup's stand-in may have nothing behind it."""
    if shutil.which(compiler) is None:
        return False
    asked = [compiler, "version" if compiler == "go" else "--version"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module", params=LANGUAGES)
def program(request: pytest.FixtureRequest, folder: Path) -> Iterator[Path]:
    language = LANGUAGES[request.param]
    if language.compiler and not _works(language.compiler):
        pytest.skip(f"{language.compiler} is not installed, or has no toolchain chosen")
    out = "embed_" + request.param.replace(" ", "_")
    caches = {"ZIG_LOCAL_CACHE_DIR": str(folder / "zig"), "GOCACHE": str(folder / "go-cache")}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        command = language.command(str(EMBED / language.source), out)
        built = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **caches}
        )
    assert built.returncode == 0, built.stderr
    yield folder / out


def _expected(folder: Path, x: np.ndarray) -> np.ndarray:
    graph = onnx.load(folder / "small.onnx").graph
    w = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in graph.initializer}
    scores = np.maximum(x @ w["w1"] + w["b1"], 0) @ w["w2"]
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _run(program: Path, weights: Path, rows: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, weights, str(rows)], capture_output=True, text=True)


@pytest.mark.parametrize("rows", [1, 6, 3000])
def test_any_batch(program: Path, folder: Path, rows: int) -> None:
    done = _run(program, folder / "model.weights", rows)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("refused")]
    found = np.array([line.split() for line in lines], np.float64)
    np.testing.assert_allclose(found, _expected(folder, inputs(rows)), rtol=1e-4, atol=1e-7)


def test_a_wrong_shape_is_refused(program: Path, folder: Path) -> None:
    last = _run(program, folder / "model.weights", 2).stdout.splitlines()[-1]
    assert last.startswith("refused: input 'x', axis 1 is ") and "; expected 8" in last


def test_wrong_weights_are_refused(program: Path, folder: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.weights"
    short.write_bytes((folder / "model.weights").read_bytes()[:64])
    done = _run(program, short, 6)
    said = "the weights have 64 bytes; 3136 are needed"
    assert done.returncode == 1 and said in done.stderr
    assert said in (EXAMPLES.parent / "docs/howto/c-api.md").read_text(encoding="utf-8")
    assert _run(program, tmp_path / "missing.weights", 6).returncode == 1


def test_the_library_knows_the_hash_of_its_weights(folder: Path) -> None:
    library = ctypes.CDLL(str(folder / "model.so"))
    library.cuvil_describe.restype = ctypes.c_char_p
    told = json.loads(library.cuvil_describe())
    data = (folder / "model.weights").read_bytes()
    assert told["weights_bytes"] == len(data)
    assert told["weights_hash64"] == f"{hash64(data):016x}"


@pytest.mark.parametrize("program", ["c"], indirect=True)
def test_damaged_weights_are_found(program: Path, folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.weights"
    data = bytearray((folder / "model.weights").read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    done = _run(program, damaged, 6)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"{damaged} is damaged, or of another model\n"


@pytest.mark.slow
def test_a_model_linked_into_the_program(folder: Path, tmp_path: Path) -> None:
    cuvil.compile(folder / "small.onnx", target="llvm").save(tmp_path / "model.ll")
    zig = [str(compiler_path()), "cc", "-fno-sanitize=all"]
    source = str(EMBED / "c/run_artifact.c")
    commands = [
        [*zig, "-O2", "-c", "model.ll", "-o", "model.o"],
        [*zig, "-std=c11", *STRICT, source, "model.o", "-o", "embed"],
    ]
    for command in commands:
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    done = _run(tmp_path / "embed", tmp_path / "model.weights", 6)
    assert done.returncode == 0, done.stderr
    found = np.array([line.split() for line in done.stdout.splitlines()[:6]], np.float64)
    np.testing.assert_allclose(found, _expected(folder, inputs(6)), rtol=1e-4, atol=1e-7)
