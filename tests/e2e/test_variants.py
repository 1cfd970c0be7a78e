"""Versions of kernels for ranges of sizes: what may be asked for, what is made, and that each is
verified."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.api.compiler import Compiler
from cuvil.api.request import CompileRequest
from cuvil.codegen import module
from cuvil.errors import InputError, TargetError, VerificationError
from cuvil.runtime import ways
from cuvil.tune.retuner import RetunePlan, way_text

X = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
NAMES = {"x": {0: "batch", 1: cuvil.Dim("n", min=1, max=64)}}
ASKED = {"n": [4, [16, 33], [33, None]], "batch": [1]}


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        soft = x.softmax(-1)
        return (soft * soft).transpose(0, 1).contiguous()


def compiled(variants: Any, **more: Any) -> Any:
    how: dict[str, Any] = {"dynamic_dims": NAMES, "threads": 1, **more}
    return cuvil.compile(Rows().eval(), (X,), options={"variants": variants}, **how)


def test_the_table_is_data_and_ships_with_the_package(tmp_path: Path) -> None:
    made = compiled(ASKED)
    assert made.variants["ranges"] == {"n": [[4, 5], [16, 33], [33, None]], "batch": [[1, 2]]}
    assert made.variants["left_out"] == 0
    entries = [entry for found in made.variants["kernels"].values() for entry in found]
    assert any(entry["when"].get("n") == [4, 5] for entry in entries)
    assert {entry["kernel"] for entry in entries} <= set(made.manifest.extra["kernels"])
    made.save(tmp_path / "rows.cuvilpkg")
    with cuvil.load(tmp_path / "rows.cuvilpkg") as again:
        assert again.variants == made.variants
        for batch in (1, 2):
            for n in (3, 4, 5, 15, 16, 32, 33, 64):
                x = torch.randn(batch, n)
                torch.testing.assert_close(again(x), Rows()(x), rtol=1e-5, atol=1e-6)
    plain = cuvil.compile(Rows().eval(), (X,), dynamic_dims=NAMES, threads=1)
    assert plain.variants is None


def test_each_version_is_verified() -> None:
    request = CompileRequest(
        Rows().eval(), (X,), dynamic_dims=NAMES, threads=1, options={"variants": ASKED}
    )
    compiler = Compiler(request)
    compiler.cache.get = lambda *_: None  # type: ignore[method-assign,assignment]
    made = compiler.run()
    assert compiler.report is not None and compiler.report.passed
    cases = set(compiler.report.cases)
    assert {"x[1, 4]", "x[2, 4]"} <= cases  # n = 4 is two versions of the transposition
    assert set(cuvil.verify(made).cases) >= cases


def test_a_wrong_version_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs at n = 4 alone is made wrong, which no other size shows."""
    real = module.choose_versions

    def broken(*arguments: Any) -> Any:
        found = real(*arguments)
        for version in (v for versions in found.of.values() for v in versions):
            stored = re.sub(r"(out0\[.*\] = .*);", r"\1 + 1.0f;", version.kernel.body)
            version.kernel.body = stored
        return found

    monkeypatch.setattr(module, "choose_versions", broken)
    with pytest.raises(VerificationError):
        compiled({"n": [4]}, cache=False)


WRONG = [
    ("fast", "the option variants is 'fast'"),
    ([1, 4], "the option variants is [1, 4]"),
    ({"n": 4}, "the option variants has 4 for n"),
    ({"n": []}, "the option variants has [] for n"),
    ({"n": "4"}, "the option variants has '4' for n"),
    ({"n": [True]}, "the option variants has True for n, which is no size and no range"),
    ({"n": [-1]}, "the option variants has -1 for n, which is no size and no range"),
    ({"n": [4.0]}, "the option variants has 4.0 for n, which is no size and no range"),
    ({"n": [[16, 16]]}, "the option variants has [16, 16] for n, which is no size and no range"),
    ({"n": [[1, 2, 3]]}, "the option variants has [1, 2, 3] for n"),
    ({"n": [8, 4]}, "the option variants has n = 4, which comes after n = 8"),
    ({"n": [4, 4]}, "the option variants has n = 4, which overlaps n = 4"),
    ({"n": [[1, 16], [8, 32]]}, "8 <= n < 32, which overlaps 1 <= n < 16"),
    ({"n": [[8, None], 40]}, "n = 40, which overlaps n >= 8"),
    ({"n": [65]}, "n = 65; allowed is 1 <= n <= 64"),
    ({"n": [0]}, "n = 0; allowed is 1 <= n <= 64"),
    ({"n": [[65, None]]}, "n >= 65; allowed is 1 <= n <= 64"),
    ({"n": [10**20]}, f"n = {10**20}; a size is at most {2**31 - 1}"),
    ({"batch": [10**20]}, f"batch = {10**20}; a size is at most {2**31 - 1}"),
    ({"batch": [2**31]}, f"batch = {2**31}; a size is at most {2**31 - 1}"),
    ({"batch": [[16, 10**20]]}, f"16 <= batch < {10**20}; a size is at most {2**31 - 1}"),
    ({"batch": [[2**63, None]]}, f"batch >= {2**63}; a size is at most {2**31 - 1}"),
    ({"m": [4]}, "names 'm', which is no symbolic dim"),
    ({"n": list(range(1, 60)), "batch": [1]}, "more than 64 combinations"),
]


@pytest.mark.parametrize(("asked", "words"), WRONG, ids=[repr(a)[:40] for a, _ in WRONG])
def test_wrong_use(asked: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        compiled(asked, verify=False)
    assert words in str(caught.value) and caught.value.hint


def test_a_bound_that_no_call_reaches_ends_no_range() -> None:
    names = {"x": {0: cuvil.Dim("batch", min=1, max=10**20)}}
    made = cuvil.compile(
        Rows().eval(), (X,), dynamic_dims=names, options={"retune": True}, verify=False
    )
    ranges = [when["batch"] for when in made.manifest.extra["retune"]["ranges"] if when]
    assert ranges == [[1, 2], [2, 16], [16, 64], [64, None]]
    made.close()


def test_a_size_against_a_constraint_names_it() -> None:
    with pytest.raises(InputError) as caught:
        compiled({"n": [8, 12]}, constraints=("n % 8 == 0",))
    assert "n = 12, against the constraint" in str(caught.value)


def test_a_model_without_symbols_has_none_to_name() -> None:
    with pytest.raises(InputError, match="the symbolic dims are none"):
        cuvil.compile(Rows().eval(), (X,), options={"variants": {"n": [4]}})


def faster(monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    """Ways whose text matches ``names`` are measured as twice as fast, all others as they are."""
    real = ways.Bench.measure

    def measured(self: Any, call: int, numbers: Any, seconds: float, rounds: int) -> Any:
        real(self, call, numbers, min(seconds, 0.002), 5)
        entry = made[0].calls[call]
        texts = [way_text(entry.ways[number]) for number in numbers]
        return np.array([[0.5 if re.search(names, text) else 1.0 for text in texts]] * 10)

    made: list[RetunePlan] = []
    monkeypatch.setattr(ways.Bench, "measure", measured)
    monkeypatch.setattr(RetunePlan, "read", staticmethod(remembered(made)))


def remembered(made: list[RetunePlan]) -> Any:
    real = RetunePlan.read

    def read(tree: object) -> RetunePlan:
        made[:] = [real(tree)]
        return made[0]

    return read


def test_what_is_measured_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of 1 have versions of their own, and those are taken where they are faster."""
    faster(monkeypatch, r"\bn = 1$")
    made = compiled("auto", cache=False)
    assert made.variants["ranges"] == {  # 3 and 7 are the example's
        "batch": [[1, 2], [2, 3], [3, 4], [4, 16], [16, 64], [64, None]],
        "n": [[1, 2], [2, 7], [7, 8], [8, 16], [16, 64], [64, 65]],
    }
    entries = [entry for found in made.variants["kernels"].values() for entry in found]
    assert entries and all(entry["when"]["n"] == [1, 2] for entry in entries)
    assert {m["chosen"] is None for m in made.variants["measured"]} == {True, False}
    for batch, n in itertools.product((1, 2, 16, 64), (1, 2, 15, 16, 17, 63, 64)):
        x = torch.randn(batch, n)
        torch.testing.assert_close(made(x), Rows()(x), rtol=1e-5, atol=1e-6)


def test_what_was_measured_can_be_given_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The same table gives the same library, and nothing is measured; it survives JSON."""
    with monkeypatch.context() as faked:
        faster(faked, r"\bn = 1$")
        made = compiled("auto", cache=False)
    table = json.loads(json.dumps(made.variants))
    monkeypatch.setattr("cuvil.api.variants.measure_versions", None)
    again = compiled(table, cache=False)
    assert again.variants == made.variants
    assert again.manifest.library_sha256 == made.manifest.library_sha256
    plain = compiled({"n": [1]}, cache=False)
    assert compiled(plain.variants).variants == plain.variants
    other = torch.nn.Linear(8, 4).eval()
    how: dict[str, Any] = {"dynamic_dims": {"input": {0: "batch", 1: "n"}}, "threads": 1}
    cuvil.compile(torch.nn.Tanh(), (X,), options={"variants": table}, cache=False, **how)
    assert "no kernel of this model is in the table" in caplog.text
    with pytest.raises(InputError, match="names 'n', which is no symbolic dim"):
        how["dynamic_dims"] = {"input": {0: "batch"}}
        cuvil.compile(other, (torch.ones(3, 8),), options={"variants": table}, **how)


@pytest.mark.parametrize(
    "change",
    [
        {"measured": 3}, {"measured": [3]}, {"measured": [{"kernel": "k"}]}, {"ranges": {"n": 3}},
        {"measured": [{"kernel": "k", "key": "1", "when": {"n": [1, 2]}, "sizes": {}, "seconds": {},
                       "chosen": {"when": {"n": [1, 2]}, "tune": {"row_limit": -1}}}]},
    ],
)  # fmt: skip
def test_tables_that_are_none(change: dict[str, Any]) -> None:
    table = {"ranges": {"n": [[1, 2]]}, "kernels": {}, "left_out": 0, "measured": [], **change}
    with pytest.raises(InputError, match="variants"):
        compiled(table)


def test_other_examples_are_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is the same, but not what is known of its sizes."""
    faster(monkeypatch, "nothing")
    found = []
    for n in (5, 6, 5):
        how: dict[str, Any] = {"dynamic_dims": NAMES, "threads": 1}
        made = cuvil.compile(Rows().eval(), (X[:, :n],), options={"variants": "auto"}, **how)
        found.append([n, n + 1] in made.variants["ranges"]["n"])
    assert found == [True, True, True]


def test_nothing_faster_leaves_the_code_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    faster(monkeypatch, "nothing")
    made = compiled("auto", cache=False)
    assert made.variants["kernels"] == {} and made.variants["measured"]
    plain = cuvil.compile(Rows().eval(), (X,), dynamic_dims=NAMES, threads=1)
    assert made.manifest.library_sha256 == plain.manifest.library_sha256


def test_ranges_are_measured_where_there_is_time_to_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    faster(monkeypatch, "row_limit")
    model = torch.nn.Linear(96, 640).eval()
    x = torch.randn(3, 96)
    how: dict[str, Any] = {"dynamic_dims": {"input": {0: "rows"}}, "threads": 1, "cache": False}
    asked = {"rows": [[1, 16], [16, 64], [64, None]]}
    made = cuvil.compile(model, (x,), options={"variants": asked, "tune": 0.2}, **how)
    (entries,) = made.variants["kernels"].values()
    assert [entry["when"] for entry in entries] == [{"rows": span} for span in asked["rows"]]
    assert all(set(entry["tune"]) == {"row_limit"} for entry in entries)
    for rows in (1, 15, 16, 17, 63, 64, 65):
        x = torch.randn(rows, 96)
        torch.testing.assert_close(made(x), model(x), rtol=1e-4, atol=1e-5)
    # Without measuring there is nothing to choose knobs by, and the code would be the same.
    plain = cuvil.compile(model, (x,), options={"variants": asked}, **how)
    assert plain.variants["kernels"] == {}


def test_a_stage_is_shown_without_measuring() -> None:
    with pytest.raises(InputError, match="a stage is shown"):
        cuvil.dump_ir(Rows(), "fused", example_inputs=(X,), options={"variants": "auto"})


def test_a_library_for_several_cpus_has_versions_in_each() -> None:
    made = compiled({"n": [4]}, target="x86_64-linux-gnu")
    entries = [entry for found in made.variants["kernels"].values() for entry in found]
    assert entries and len(made.manifest.extra["variants"]) > 1
    for n in (3, 4, 5):
        x = torch.randn(2, n)
        torch.testing.assert_close(made(x), Rows()(x), rtol=1e-5, atol=1e-6)


def test_a_target_without_versions_is_refused() -> None:
    with pytest.raises(TargetError, match="target c can't have variants"):
        compiled({"n": [4]}, target="c", verify=False)
