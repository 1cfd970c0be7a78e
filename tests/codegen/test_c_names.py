"""Names in C: none is a keyword, a macro of a header or compiler, or a type."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cuvil.codegen.c.header import distinct, identifier
from tests.e2e.test_c_target import ZIG

HEADERS = (
    "assert", "complex", "errno", "float", "inttypes", "limits", "math", "signal", "stdbool",
    "stddef", "stdint", "stdio", "stdlib", "string",
)  # fmt: skip
_INCLUDES = "".join(f"#include <{h}.h>\n" for h in HEADERS)
_COMPILERS = [ZIG, *([("gcc",)] if shutil.which("gcc") else [])]


def _names_as_parameters(language: str) -> str:
    names = [
        "NULL", "linux", "unix", "i386", "INT8_MAX", "I", "errno", "EOF", "assert", "true", "false",
        "bool", "class", "new", "int8_t", "size_t", "EDOM", "typeof", "UINT64_C", "NAN", "M_PI",
        "FLT_MAX", "HUGE_VAL", "stdin", "k_0", "cuvil_mod", "x", "input", "int", "SIGINT",
    ]  # fmt: skip
    headers = _INCLUDES if language == "c" else _INCLUDES.replace("#include <complex.h>\n", "")
    text = "".join(f"int f{i}(const float *{identifier(n)});\n" for i, n in enumerate(names))
    return headers + text


@pytest.mark.parametrize("standard", ["c99", "gnu99", "gnu17", "gnu++17"])
@pytest.mark.parametrize("compiler", _COMPILERS, ids=lambda c: "gcc" if c[0] == "gcc" else "clang")
def test_parameters_are_no_macros(
    compiler: tuple[str, ...], standard: str, tmp_path: Path
) -> None:
    language = "c++" if "++" in standard else "c"
    source = tmp_path / f"names.{language.replace('++', 'pp')}"
    source.write_text(_names_as_parameters(language))
    command = [*compiler, f"-std={standard}", "-c", str(source), "-o", str(tmp_path / "names.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def test_what_a_compiler_defines_for_itself_is_taken() -> None:
    command = [*_COMPILERS[-1], "-std=gnu99", "-dM", "-E", "-x", "c", "-"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    found = [n for n in re.findall(r"^#define (\w+)", done.stdout, re.M) if n[0] != "_"]
    assert found and [n for n in found if identifier(n) == n] == []


def test_other_names_stay() -> None:
    names = ["x", "input", "E", "embed", "m", "max", "size", "tokens", "Iota", "key_1", "INPUT"]
    assert [identifier(n) for n in names] == names


def test_names_differ_in_more_than_case() -> None:
    assert distinct(["x", "X", "x", "y"], set()) == ["x", "X_2", "x_3", "y"]
