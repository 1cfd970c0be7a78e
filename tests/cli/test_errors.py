"""Wrong use and bad models: the exit code, a message that helps, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cuvil.api import parsing
from cuvil.cli import compile as compile_verb
from cuvil.errors import InputError
from cuvil.sym.dim import Dim
from tests.cli.conftest import Call


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, ""),
        (("compile",), 2, "Missing argument"),
        (("compile", "net.onnx", "--nonsense"), 2, "--nonsense"),
        (("compile", "net.onnx", "--fuel", "x"), 2, "--fuel"),
        (("compile", "net.onnx", "--shape", "x"), 2, "cannot read the shape"),
        (("compile", "net.onnx", "--dynamic", "x:0"), 2, "cannot read the dynamic dim"),
        (("compile", "net.onnx", "--precision", "f3"), 2, "precision is 'f3'"),
        (("compile", "net.onnx", "--target", "toaster"), 2, "no target 'toaster'"),
        (("compile", "net.onnx", "-o", "net.txt"), 2, "no form '.txt'"),
        (("compile", "net.onnx", "--target", "wasm", "-o", "m.so"), 2, ".so is no form of"),
        (("compile", "net.onnx", "--target", "c", "-o", "m.wasm"), 2, "for .wasm give --target"),
        (("compile", "net.onnx", "--target", "aarch64", "-o", "m.c"), 2, "forms are .cuvilpkg"),
        (("compile", "net.onnx", "--target", "onnx", "-o", "m.ll"), 2, ".ll is no form of"),
        (("compile", "net.onnx", "--target", "aarch64", "-o", "m.ll"), 2, "--target llvm-aarch64"),
        (("compile", "net.onnx", "--target", "x86_64-linux-gnu", "-o", "m.ll"), 2, "for one CPU"),
        (("compile", "missing.onnx"), 2, "missing.onnx"),
        (("compile", "net.cuvilpkg"), 2, "is an artifact"),
        (("compile", "unknown.onnx"), 3, "Cuvilify"),
        (("compile", "cli_nets:nothing"), 2, "no attribute 'nothing'"),
        (("compile", "nowhere:make"), 2, "no module 'nowhere'"),
        (("compile", "net.onnx", "--dynamic", "x:9=k"), 2, "axis 9"),
        (("compile", "net.onnx", "--dynamic", "q:0=k"), 2, "no input 'q'"),
        (("compile", "."), 2, "cannot read .: it is a folder"),
        (("compile", "cli_nets:fails"), 3, "no weights here"),
        (("run", "missing.cuvilpkg", "-i", "random"), 2, "there is no such file"),
        (("inspect", "missing.cuvilpkg"), 2, "there is no such file"),
        (("compile", "net.onnx", "-o", "nowhere/net.so"), 2, "there is no folder nowhere"),
        (("compile", "net.onnx", "-o", "folder.so"), 2, "folder.so: it is a folder"),
        (("compile", "net.onnx", "-o", "."), 2, "cannot write .: it is a folder"),
        (("compile", "net.onnx", "--ram", "1e999"), 2, "ram is '1e999'"),
        (("compile", "net.onnx", "--constraint", "n >"), 2, "n >"),
        (("compile", "cli_nets:Net"), 2, "--shape NAME:"),
        (("compile", "cli_nets.py"), 3, "write cli_nets:NAME"),
        (("inspect", "net.onnx", "--why-not", "misspelt"), 2, "no rule 'misspelt'"),
        (("verify", "net.onnx", "--atol", "-1"), 2, "--atol"),
        (("inspect", "net.onnx", "--ir", "nonsense"), 2, "no stage 'nonsense'"),
        (("verify", "a.cuvilpkg", "--layerwise"), 2, "give --source MODEL"),
        (("bench", "net.onnx", "--against", "abacus"), 2, "no peer 'abacus'"),
        (("bench", "net.onnx", "--threads", "0"), 2, "cannot read the threads"),
    ],
)
def test_exit_codes(cuvil_cli: Call, arguments: tuple[str, ...], code: int, message: str) -> None:
    ran = cuvil_cli(*arguments)
    assert ran.code == code
    assert message in ran.err and "Traceback" not in ran.err + ran.out


@pytest.mark.parametrize(("target", "name"), [("wasm", "m.so"), ("c", "m.wasm")])
def test_a_form_of_another_target_builds_nothing(
    cuvil_cli: Call, place: Path, monkeypatch: pytest.MonkeyPatch, target: str, name: str
) -> None:
    def built(*_: object) -> None:
        raise AssertionError("it was built")

    monkeypatch.setattr(compile_verb, "compiler_for", built)
    ran = cuvil_cli("compile", "net.onnx", "--target", target, "-o", name)
    assert ran.code == 2 and f"is no form of the target {target}" in " ".join(ran.err.split())
    assert not (place / name).exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "no value for the input 'x'"),
        (("-i", "y=random"), 2, "no input 'y'"),
        (("-i", "x=@missing.npy"), 2, "cannot read missing.npy"),
        (("-i", "x=5"), 2, "cannot read the input"),
        (("-i", "random", "--at", "m=1"), 2, "no symbolic dim 'm'"),
        (("-i", "random", "--at", "n=9"), 3, "allowed is 1 <= n <= 8"),
        (("-i", "random", "-o", "out.txt"), 2, "cannot write out.txt"),
    ],
)
def test_wrong_inputs(
    cuvil_cli: Call, package: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    ran = cuvil_cli("run", str(package), *arguments)
    assert ran.code == code and message in ran.err and "Traceback" not in ran.err


def test_a_rule_that_had_nothing_to_look_at_is_no_error(cuvil_cli: Call) -> None:
    ran = cuvil_cli("inspect", "net.onnx", "--why-not", "heads-inside")
    assert ran.code == 0 and "heads-inside was never tried here" in ran.out


def test_sizes_beyond_memory_are_wrong_use(cuvil_cli: Call, package: Path) -> None:
    ran = cuvil_cli("run", str(package), "-i", "random", "--at", "n=100000000000000")
    assert ran.code == 2 and "cannot make inputs of n=100000000000000" in ran.err


def test_errors_as_json_are_alone_on_stdout(cuvil_cli: Call) -> None:
    ran = cuvil_cli("compile", "unknown.onnx", "--json")
    assert ran.code == 3 and ran.json["error"]["kind"] == "UnsupportedOpError"
    assert "Cuvilify" in ran.json["error"]["nodes"][0]["op"]


def test_debug_shows_the_traceback(cuvil_cli: Call) -> None:
    ran = cuvil_cli("compile", "missing.onnx", "--debug")
    assert ran.code == 2 and "Traceback" in ran.err


def test_a_fault_of_ours_says_so(cuvil_cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("cuvil.cli.targets.find_target", broken)
    ran = cuvil_cli("targets")
    assert ran.code == 3 and "ZeroDivisionError: oops" in ran.err and "report it" in ran.err


@pytest.mark.parametrize("verb", ["compile", "run", "verify", "bench", "inspect", "ops", "targets"])
def test_help_has_an_example_and_the_common_options(cuvil_cli: Call, verb: str) -> None:
    ran = cuvil_cli(verb, "--help")
    assert ran.code == 0 and f"cuvil {verb}" in ran.out and "xample" in ran.out
    assert "--json" in ran.out and "--debug" in ran.out


def test_shapes_and_dims_are_read() -> None:
    assert parsing.parse_shape("x:1x3x8x8") == ("x", None, (1, 3, 8, 8))
    assert parsing.parse_shape("ids:i64[batch, seq]") == ("ids", "int64", ("batch", "seq"))
    assert parsing.parse_shape("a:b:2") == ("a:b", None, (2,))
    assert parsing.parse_shape("m:n,2*n") == ("m", None, ("n", "2*n"))
    assert parsing.parse_shape("s:f32[]") == ("s", "float32", ())
    found = parsing.parse_dynamic(["x:0=batch:1..64", "x:1=seq", "a:b:-1=n:2.."])
    assert found == {
        "x": {0: Dim("batch", 1, 64), 1: Dim("seq")}, "a:b": {-1: Dim("n", 2)}
    }  # fmt: skip
    assert parsing.parse_dynamic([]) is None
    assert parsing.parse_sizes("batch=8, seq=128") == {"batch": 8, "seq": 128}


@pytest.mark.parametrize(
    "text", ["x", ":1", "x:1x", "x:f99[1]", "x:1x-2", "x:axb3x", "x:2,-3", "x:f32[a,]"]
)
def test_bad_shapes_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parsing.parse_shape(text)


@pytest.mark.parametrize("text", ["x", "x:0", "x:a=b", "x:0=b:5..2", "x:0=b:1", "x:0=1"])
def test_bad_dims_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parsing.parse_dynamic([text])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compile", "net.onnx", "--nonsense"), "--nonsense"),
        (("compile", "net.onnx", "--threads", "abc"), "--threads"),
        (("compile",), "MODEL"),
        (("nope",), "nope"),
        (("compile", "."), "cannot read ."),
    ],
)
def test_wrong_use_is_a_document_with_json(
    cuvil_cli: Call, arguments: tuple[str, ...], message: str
) -> None:
    ran = cuvil_cli(*arguments, "--json")
    assert ran.code == 2
    error = json.loads(ran.out)["error"]
    assert error["kind"] == "InputError" and message in error["message"]
    assert error.keys() == {"kind", "message", "where", "hint", "stage"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_result_that_cannot_be_written_is_an_error(more: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "cuvil", "targets", *more]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "error: the result can't be written to stdout: No space left on device\n"
