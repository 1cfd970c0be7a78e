"""Tables of tuning as data: what is read back, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuvil.api.tuning import tuning_asked
from cuvil.errors import InputError
from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec
from cuvil.tune.sizes import sizes_to_measure
from cuvil.tune.table import Found, TuningTable, read_table

FOUND = Found("ab12", {"group": 14}, {"default": 2.0, "group=14": 1.0}, {"n": 2}, "conv", "net", 3)
TABLE = TuningTable("A CPU", "x86_64 v4", 2, (FOUND, Found("cd34", {})))


def test_a_table_is_read_as_it_was_written() -> None:
    tree = json.loads(json.dumps(TABLE.as_dict()))
    assert read_table(tree) == TABLE
    assert read_table({"output": "net.cuvilpkg", "tuning": tree}) == TABLE  # a compile's report
    assert TABLE.choices == {"ab12": {"group": 14}}
    assert TABLE.of({"cd34"}).kernels == (Found("cd34", {}),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kernels": None}, "has no kernels"),
        ({"version": 2}, "has version 2"),
        ({"cpu": 1}, "does not say where it was made"),
        ({"threads": True}, "does not say where it was made"),
        ({"kernels": [{}]}, "names no kernel"),
        ({"kernels": [{"kernel": "ab", "choice": {"speed": 1}}]}, "kernel ab: there is no knob"),
        ({"kernels": [{"kernel": "ab"}]}, "kernel ab: a choice is a table"),
        ({"kernels": [{"kernel": "ab", "choice": {}, "seconds": {"x": "y"}}]}, "no numbers"),
        ({"kernels": [{"kernel": "ab", "choice": {}, "sizes": {"x": 1.5}}]}, "no whole numbers"),
        ({"kernels": [{"kernel": "ab", "choice": {}, "name": 1}]}, "can't be read"),
        ({"kernels": [{"kernel": "ab", "choice": {}}] * 2}, "the kernel ab twice"),
    ],
    ids=str,
)
def test_what_is_no_table(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_table({**TABLE.as_dict(), **change})


@pytest.mark.parametrize("asked", [0, -1.0, float("nan"), float("inf"), True, [1], 1j], ids=str)
def test_what_is_no_time(asked: Any) -> None:
    with pytest.raises(InputError, match="the option tune is"):
        tuning_asked(asked)


def test_the_option_is_seconds_or_a_table(tmp_path: Path) -> None:
    assert tuning_asked(None) is None and tuning_asked(2) == 2.0
    assert tuning_asked(TABLE.as_dict()) == TABLE
    file = tmp_path / "table.json"
    file.write_text(json.dumps(TABLE.as_dict()))
    assert tuning_asked(file) == TABLE == tuning_asked(str(file))
    file.write_text("{")
    with pytest.raises(InputError, match="is no JSON"):
        tuning_asked(file)
    with pytest.raises(InputError, match="cannot read .*: No such file"):
        tuning_asked(tmp_path / "none.json")
    (tmp_path / "none.cuvilpkg").write_text("nothing")
    with pytest.raises(InputError, match="cannot read"):
        tuning_asked(tmp_path / "none.cuvilpkg")


def test_sizes_are_the_examples_else_the_middle_of_the_range() -> None:
    import numpy as np

    spec = TensorSpec("x", "f32", ("n", "s"))
    symbols = (SymbolSpec("n", 1, None), SymbolSpec("s", 8, 512))
    free = Signature((spec,), (), symbols)
    assert sizes_to_measure(free, {"x": np.zeros((3, 16))}) == {"n": 3, "s": 16}
    assert sizes_to_measure(free, {}) == {"n": 32, "s": 260}
    tied = Signature((spec,), (), symbols, (ConstraintSpec("s % 8 == 0", "user"),))
    found = sizes_to_measure(tied, {})
    assert found["s"] % 8 == 0 and found["s"] >= 8
