"""Arguments of a wrong type or value: every public function refuses them by name, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import CuvilError, InputError
from cuvil.runtime.artifact import Artifact

# Whatever a caller may give by mistake; each parameter below names those that it takes.
HOSTILE: Mapping[str, Any] = {
    "object": object(), "five": 5, "minus one": -1, "half": 0.5, "nan": float("nan"),
    "text": "text", "empty text": "", "bytes": b"b", "none": None, "true": True, "empty list": [],
    "list": [5], "list of none": [None], "empty dict": {}, "dict": {"a": 5}, "odd dict": {5: None},
    "function": print, "array": np.ones(2), "tensor": torch.ones(2), "empty set": set(),
    "slice": slice(1),
}  # fmt: skip
EXAMPLE = torch.ones(1, 3)


def _model() -> torch.nn.Module:
    return torch.nn.Linear(3, 2).eval()


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    compiled = cuvil.compile(_model(), (EXAMPLE,), threads=1)
    assert isinstance(compiled, Artifact)
    return compiled


def _compile(**given: Any) -> Callable[[Artifact, Path], object]:
    def call(artifact: Artifact, folder: Path) -> object:
        return cuvil.compile(**{"model": _model(), "example_inputs": (EXAMPLE,), **given})

    return call


def _shaped(**given: Any) -> Callable[[Artifact, Path], object]:
    return _compile(example_inputs=None, **given)


def _option(**given: Any) -> Callable[[Artifact, Path], object]:
    return _compile(options=given)


def _verify(**given: Any) -> Callable[[Artifact, Path], object]:
    return lambda artifact, folder: cuvil.verify(**{"compiled": artifact, **given})


def _load(**given: Any) -> Callable[[Artifact, Path], object]:
    def call(artifact: Artifact, folder: Path) -> object:
        artifact.save(folder / "m.cuvilpkg")
        return cuvil.load(**{"path": folder / "m.cuvilpkg", **given})

    return call


def _dump(**given: Any) -> Callable[[Artifact, Path], object]:
    return lambda artifact, folder: cuvil.dump_ir(
        **{"model": _model(), "example_inputs": (EXAMPLE,), **given}
    )


def _trace(**given: Any) -> Callable[[Artifact, Path], object]:
    return lambda artifact, folder: cuvil.debug_trace(
        **{"model": _model(), "inputs": (EXAMPLE,), "path": None, **given}
    )


def _register(**given: Any) -> Callable[[Artifact, Path], object]:
    given = {"name": "wrong::op", "cxx": "float op(float x) { return x; }", "fusion": "map"} | given
    return lambda artifact, folder: cuvil.register_op(**given)


def _dim(**given: Any) -> Callable[[Artifact, Path], object]:
    return lambda artifact, folder: cuvil.Dim(**{"name": "n", **given})


def _method(name: str, *before: Any) -> Callable[..., Callable[[Artifact, Path], object]]:
    def given(**named: Any) -> Callable[[Artifact, Path], object]:
        (value,) = named.values()
        return lambda artifact, folder: getattr(artifact, name)(*before, value)

    return given


def _seconds(seconds: Any) -> Callable[[Artifact, Path], object]:
    return lambda artifact, folder: artifact.profile(EXAMPLE, seconds=seconds)


def _sized(name: str) -> Callable[..., Callable[[Artifact, Path], object]]:
    """The size of the input, as what a method takes in place of arrays."""
    method = _method(name)

    def given(**named: Any) -> Callable[[Artifact, Path], object]:
        return method(inputs={"input": named["shape"]})

    return given


Given = Callable[..., Callable[[Artifact, Path], object]]
# Function, parameter, what of HOSTILE it takes. Nothing that is taken is tried: it may be costly.
PARAMETERS: tuple[tuple[Given, str, str], ...] = (
    (_compile, "model", ""),
    (_compile, "example_inputs", ""),
    (_shaped, "input_shape", ""),
    (_shaped, "input_spec", ""),
    (_compile, "dynamic_dims", "none, empty list, list of none, empty dict"),
    (_compile, "constraints", "empty list"),
    (_compile, "target", ""),
    (_compile, "precision", ""),
    (_compile, "enable_fusion", "true"),
    (_compile, "verify", "true"),
    (_compile, "threads", "five, none"),
    (_compile, "cache", "true"),
    (_compile, "profile", "none, function"),
    (_compile, "options", "none, empty dict"),
    (_option, "chains", "true"),
    (_option, "fixed_inputs", "none, empty dict"),
    (_option, "flash", "none"),
    (_option, "fuel", "five, none"),
    (_option, "input_contents", "none, empty dict"),
    (_option, "jobs", "five"),
    (_option, "opt_level", ""),
    (_option, "profile", "true"),
    (_option, "ram", "none"),
    (_option, "retune", "five, half, true, none"),
    (_option, "tune", "five, half, none"),
    (_option, "variants", "none, empty dict"),
    (_option, "winograd", "true"),
    (_option, "misspelt", ""),
    (_verify, "compiled", ""),
    (_verify, "inputs", "none"),
    (_verify, "atol", "five, half, none"),
    (_verify, "rtol", "five, half, none"),
    (_verify, "layerwise", "true"),
    (_verify, "paths", "true"),
    (_load, "path", ""),
    (_load, "threads", "five, none"),
    (_dump, "model", ""),
    (_dump, "stage", ""),
    (_dump, "target", ""),
    (_dump, "misspelt", ""),
    (_trace, "model", ""),
    (_trace, "inputs", ""),
    (_trace, "path", "text, none"),
    (_trace, "misspelt", ""),
    (_register, "name", "text"),
    (_register, "shape", "none, function"),
    (_register, "attrs", "none, empty dict"),
    (_register, "cxx", "text, empty text"),
    (_register, "function", "text, none"),
    (_register, "fusion", ""),
    (_register, "compose", "none"),
    (_register, "python", "none"),
    (_register, "reference", "none, function"),
    (_register, "tolerance", ""),
    (_register, "replace", "true"),
    (_dim, "name", "text"),
    (_dim, "min", "five"),
    (_dim, "max", "five, none"),
    (_method("__call__"), "value", ""),
    (_method("run"), "inputs", ""),
    (_method("run", {"input": EXAMPLE}), "out", "none, empty dict"),
    (_method("save"), "path", ""),
    (_method("symbols_for"), "inputs", ""),
    (_method("workspace_bytes"), "inputs", ""),
    (_method("memory"), "inputs", ""),
    (_sized("symbols_for"), "shape", ""),
    (_sized("workspace_bytes"), "shape", ""),
    (_sized("memory"), "shape", ""),
    (_method("profile"), "inputs", ""),
    (_seconds, "seconds", "five, half"),
)


@pytest.mark.parametrize(
    ("given", "parameter", "takes"), PARAMETERS, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_hostile_values_are_refused(
    artifact: Artifact, tmp_path: Path, given: Given, parameter: str, takes: str
) -> None:
    taken = takes.split(", ") if takes else []
    assert set(taken) <= set(HOSTILE)
    for name, value in HOSTILE.items():
        if name in taken:
            continue
        try:
            given(**{parameter: value})(artifact, tmp_path)
        except CuvilError as error:
            assert error.message and " object at 0x" not in str(error), name
        except Exception as error:
            pytest.fail(f"{parameter}={name}: {type(error).__name__}: {error}")
        else:
            pytest.fail(f"{parameter}={name} is taken")


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (_compile(target=None), "target is None", "a target's name, or a list of names"),
        (_compile(target=5), "target is 5", "a target's name"),
        (_compile(options=5), "options is 5", "give a dict"),
        (_compile(options={"fule": 3}), "no option 'fule'", "fuel"),
        (_compile(verify="no"), "verify is 'no'", "True or False"),
        (_compile(constraints="n > 2"), "constraints is 'n > 2'", "a list of texts"),
        (_compile(profile=True), "profile is True", "a file's path"),
        (_compile(example_inputs=5), "the example inputs hold no tensor", "example_inputs="),
        (_option(opt_level=9), "the option opt_level is 9", "from 0 to 3"),
        (_option(fuel=-1), "the option fuel is -1", "at least 0"),
        (_shaped(input_shape=(1, 2.5)), "input_shape has the dim 2.5", "names of symbolic dims"),
        (_shaped(input_spec=[("x", "f32", 5)]), "'x' in input_spec is 5", "a list of dims"),
        (_verify(compiled=_model), "compiled is a function", "what cuvil.compile returned"),
        (_verify(inputs=[{"input": EXAMPLE}]), "'input' is {'input': tensor(", "a dict by name"),
        (_verify(inputs={"x": EXAMPLE[0]}), "'x' is none of the model's", "a dict by name (input)"),
        (_verify(inputs={}), "the input 'input' is missing", "a dict by name (input)"),
        (_method("memory")(inputs={"input": 2}), "input 'input' is 2", "a shape such as (1, 3)"),
        (_dump(target=["native"]), "target is ['native']", "give text"),
        (_dump(misspelt=1), "no argument 'misspelt'", "example_inputs"),
        (_trace(path="nowhere/a.json"), "cannot write nowhere/a.json", "path=None"),
        (_register(tolerance="loose"), "tolerance is 'loose'", "'exact' or 'close'"),
        (_dim(min=2.5), "min of Dim('n') is 2.5", "a whole number"),
        (_method("save")(path=None), "path is None", "a path"),
    ],
)
def test_what_is_said(
    artifact: Artifact,
    tmp_path: Path,
    call: Callable[[Artifact, Path], object],
    message: str,
    hint: str,
) -> None:
    with pytest.raises(InputError) as caught:
        call(artifact, tmp_path)
    assert message in caught.value.message and hint in caught.value.hint


def test_every_parameter_is_tried() -> None:
    """A parameter that is added to a public function is added to the table above."""
    tried: dict[str, set[str]] = {}
    for given, parameter, _ in PARAMETERS:
        tried.setdefault(given.__name__, set()).add(parameter)
    tried["_compile"] |= tried["_shaped"]
    for name, function in (
        ("_compile", cuvil.compile), ("_verify", cuvil.verify), ("_load", cuvil.load),
        ("_register", cuvil.register_op),
    ):  # fmt: skip
        code = function.__code__
        named = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        assert named == tried[name], name


def test_numbers_of_numpy_are_numbers() -> None:
    one: Any = np.int64(1)
    shape, options = np.array([1, 3]), {"fuel": np.int64(99)}
    compiled = cuvil.compile(_model(), input_shape=shape, threads=one, options=options)
    assert str(cuvil.Dim("n", one, 4 * one)) == "Dim('n', min=1, max=4)"
    assert compiled(EXAMPLE).shape == (1, 2)
