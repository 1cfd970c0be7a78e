"""Profiles of kernels: what is counted, what is timed, and where it is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import cuvil
from cuvil.errors import ArtifactError, InputError
from cuvil.runtime import profiler
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.ceilings import Ceilings, ceilings_of
from cuvil.runtime.native import declared
from cuvil.runtime.profile import KernelInfo, KernelTime, Profile, limit_of, time_text
from tests.e2e.models import compile_convnet, compile_transformer, images, transformer_inputs
from tests.frontends.onnx_models import FLOAT, model, node

QUICK: dict[str, Any] = {"threads": 1, "verify": False}
READ = {"L2": 100e9, "L3": 50e9, "DRAM": 10e9}
FAST = Ceilings(1, 100e9, 200e9, READ, {"L2": 1 << 20, "L3": 1 << 24})


@pytest.fixture(autouse=True)
def _known_ceilings(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Measuring the machine has a test of its own."""
    if request.node.originalname != "test_the_machine_is_measured_once":
        monkeypatch.setattr(profiler, "ceilings_of", lambda *given: replace(FAST, threads=given[3]))


def taken(module: torch.nn.Module, *inputs: torch.Tensor, **more: Any) -> Profile:
    artifact = cuvil.compile(module.eval(), inputs, **{**QUICK, **more})
    return artifact.profile(inputs, seconds=0.01)


def only(profile: Profile, word: str) -> Any:
    (found,) = [k for k in profile.kernels if word in k.info.ops]
    return found


def test_a_matmul_is_counted_by_hand() -> None:
    kernel = only(taken(torch.nn.Linear(480, 20), torch.ones(70, 480)), "matmul")
    assert kernel.flops == 2 * 70 * 480 * 20 + 70 * 20  # products, and the bias
    assert kernel.info.activation_bytes == 4 * (70 * 480 + 70 * 20)
    assert kernel.info.weight_bytes == 4 * (480 * 20 + 20)
    assert kernel.info.dtype == "f32" and kernel.calls == 1
    assert kernel.intensity == pytest.approx(kernel.flops / (4 * (33600 + 1400 + 9600 + 20)))
    assert kernel.flop_rate == pytest.approx(kernel.flops / kernel.seconds)


def test_a_convolution_is_counted_by_hand() -> None:
    conv = torch.nn.Conv2d(6, 10, 3, stride=2, padding=1, groups=2, bias=False)
    kernel = only(taken(torch.nn.Sequential(conv), torch.ones(2, 6, 9, 9)), "conv")
    outputs = 2 * 10 * 5 * 5
    assert kernel.flops == outputs * 2 * (3 * 3 * 6 // 2)
    assert kernel.info.weight_bytes == 4 * 10 * 3 * 3 * 3


def test_minimal_filtering_makes_a_quarter_of_the_products() -> None:
    conv = torch.nn.Conv2d(64, 64, 3, padding=1, bias=False)
    kernel = only(taken(torch.nn.Sequential(conv), torch.ones(1, 64, 64, 64)), "conv")
    assert kernel.flops == 2 * 64 * 64 * 64 * 9 * 64 and kernel.info.work == kernel.flops // 4
    assert kernel.info.weight_bytes == 4 * 36 * 64 * 64  # 6 x 6 points instead of 3 x 3
    plain = taken(torch.nn.Sequential(conv), torch.ones(1, 64, 64, 64), options={"winograd": False})
    direct = only(plain, "conv")
    assert direct.info.work == direct.flops == kernel.flops
    assert direct.info.weight_bytes == 4 * 9 * 64 * 64


def test_a_lookup_reads_the_rows_it_looks_up() -> None:
    class Lookup(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(1000, 16)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.exp(self.table(ids))

    (kernel,) = taken(Lookup(), torch.arange(5)).kernels
    assert kernel.info.weight_bytes == 4 * 5 * 16
    assert kernel.info.activation_bytes == 8 * 5 + 4 * 5 * 16 and kernel.flops == 5 * 16


def test_kernels_add_up_to_the_call() -> None:
    net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
    x = torch.ones(64, 256)
    profile = cuvil.compile(net.eval(), (x,), **QUICK).profile(x, seconds=0.1)
    own = [s for s in profile.slices if s.number >= 0]
    whole = next(s for s in profile.slices if s.number < 0)
    inside = sum(s.end - s.begin for s in own)
    assert 0.7 * (whole.end - whole.begin) <= inside <= whole.end - whole.begin
    assert whole.end - whole.begin == pytest.approx(profile.seconds)
    assert profile.kernel_seconds <= inside * 1.0001 and profile.rest >= 0
    assert sum(map(profile.share, profile.kernels)) == pytest.approx(1)
    # 2 * 64 * 256 * 256 operations: no machine does that in a microsecond, or takes a second.
    assert all(1e-6 < k.seconds < 1 for k in profile.kernels) and len(profile.kernels) == 6


def test_sizes_are_those_of_the_call() -> None:
    artifact = compile_transformer(**QUICK)
    for batch, seq in ((1, 3), (3, 20)):
        ids, mask = transformer_inputs(batch, seq)
        profile = artifact.profile({"ids": ids, "mask": mask}, seconds=0.01)
        assert profile.inputs == f"ids[{batch}, {seq}], mask[{batch}, {seq}]"
        first = next(k for k in profile.kernels if "matmul" in k.info.ops)
        assert first.info.inputs[0] == f"f32[{batch}, {seq}, 32]" or str(seq) in str(first.info)
        assert first.flops == 2 * batch * seq * 32 * 96 + batch * seq * 96
        assert all(k.flops is not None and k.least for k in profile.kernels)


def test_a_loop_runs_its_kernels_many_times() -> None:
    step = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("s", TensorProto.FLOAT, [4]),
    ]
    nodes = [node("Identity", ["c"], ["c2"]), node("Exp", ["s"], ["s2"])]
    ends = [
        helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
        helper.make_tensor_value_info("s2", TensorProto.FLOAT, [4]),
    ]
    body = helper.make_graph(nodes, "body", step, ends)
    constants = {"m": np.array(500, np.int64)}
    loop = node("Loop", ["m", "", "x"], ["y"], body=body)
    proto = model([loop], {"x": (FLOAT, (4,))}, ["y"], constants)
    profile = cuvil.compile(proto, **QUICK).profile(np.zeros(4, np.float32), seconds=0.01)
    inner = only(profile, "exp")
    assert inner.calls == 500 and inner.flops == 500 * 4


def test_the_trace_has_a_slice_for_each_kernel_and_a_track_for_each_thread() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 512))
    x = torch.ones(256, 512)
    profile = cuvil.compile(net.eval(), (x,), threads=2, verify=False).profile(x, seconds=0.1)
    document = json.loads(json.dumps(profile.trace()))
    events = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert {e["cat"] for e in events} == {"call", "kernel"}
    own = [e for e in events if e["cat"] == "kernel" and e["tid"] == 0]
    assert [e["args"]["kernel"] for e in own] == [k.info.number for k in profile.kernels]
    linear = next(e for e in own if "matmul" in e["args"]["ops"])
    assert linear["args"]["flops"] >= 2 * 256 * 512 * 512 and linear["args"]["source"]
    assert linear["args"]["outputs"] == "f32[256, 512]" and linear["args"]["bytes"] > 4 * 512 * 512
    call = next(e for e in events if e["cat"] == "call")
    assert call["ts"] == 0
    for e in events:
        assert 0 <= e["ts"] <= e["ts"] + e["dur"] <= call["dur"] + 0.01
    tracks = {e["tid"] for e in document["traceEvents"] if e.get("name") == "thread_name"}
    assert tracks == {e["tid"] for e in events} and tracks <= {0, 1}


def test_the_table_names_every_kernel_slowest_first() -> None:
    profile = compile_convnet(**QUICK).profile(images(2), seconds=0.01)
    text = profile.table()
    assert all(k.info.name.removeprefix("k_") in text for k in profile.kernels)
    times = [k.seconds for k in sorted(profile.kernels, key=lambda k: -k.seconds)]
    assert profile.rows()[0][3] == time_text(times[0])
    assert len(profile.table(limit=2).splitlines()) == len(text.splitlines()) - len(times) + 2
    document = json.loads(json.dumps(profile.as_dict()))
    assert [k["name"] for k in document["kernels"]] == [k.info.name for k in profile.kernels]


def test_an_instrumented_artifact_needs_no_model(tmp_path: Path) -> None:
    plain = compile_convnet(**QUICK)
    plain.save(tmp_path / "plain.cuvilpkg")
    with cuvil.load(tmp_path / "plain.cuvilpkg") as loaded:
        with pytest.raises(InputError, match="without clocks") as told:
            loaded.profile(images(2))
        assert "--instrument" in told.value.hint
    clocked = compile_convnet(**QUICK, options={"profile": True})
    clocked.save(tmp_path / "clocked.cuvilpkg")
    with cuvil.load(tmp_path / "clocked.cuvilpkg", threads=1) as loaded:
        np.testing.assert_array_equal(loaded(images(2).numpy()), plain(images(2).numpy()))
        profile = loaded.profile(images(2), seconds=0.01)
        assert [k.info.name for k in profile.kernels] == [
            k.info.name for k in plain.profile(images(2), seconds=0.01).kernels
        ]


def test_an_ordinary_build_has_nothing_of_it() -> None:
    plain = cuvil.dump_ir(torch.nn.Linear(4, 4).eval(), "cxx", example_inputs=(torch.ones(1, 4),))
    assert "rofile" not in plain
    artifact = compile_convnet(**QUICK)
    package = artifact.library_model().package
    assert b"cuvil_profile" not in package.library and "profile" not in artifact.manifest.extra


def test_wrong_inputs_are_refused() -> None:
    artifact = compile_convnet(**QUICK)
    with pytest.raises(InputError, match="has 1 input; 2 were given"):
        artifact.profile((images(1), images(1)))
    with pytest.raises(InputError, match="seconds is 0"):
        artifact.profile(images(1), seconds=0)
    with pytest.raises(cuvil.ShapeConstraintError):
        artifact.profile(torch.ones(2, 4, 16, 16))


@pytest.mark.parametrize(
    "extra",
    [{}, {"calls": [], "caches": [1]}, {"calls": 3, "caches": [1, 2]}, {"calls": [3]},
     {"calls": [{"name": "k"}] * 20, "caches": [1, 2]}],
)  # fmt: skip
def test_a_description_that_cannot_be_read_is_refused(extra: Mapping[str, Any]) -> None:
    artifact: Artifact = compile_convnet(**QUICK, options={"profile": True})
    artifact._manifest = replace(artifact.manifest, extra={"profile": extra})
    with pytest.raises(ArtifactError, match="description of"):
        artifact.profile(images(1), seconds=0.01)


def info(flops: int, activations: int, weights: int, dtype: str = "f32") -> KernelInfo:
    return KernelInfo(0, "k", "map", (), "", (), (), dtype, flops, flops, activations, weights)


def test_what_is_too_short_to_be_timed_has_no_rate() -> None:
    short, long = (KernelTime(info(10, 10, 0), 2, t, "L2", 1e-9) for t in (90e-9, 110e-9))
    assert short.flop_rate is short.byte_rate is short.of_ceiling is None
    assert long.flop_rate == pytest.approx(20 / 110e-9)
    assert long.of_ceiling == pytest.approx(1 / 110)


def test_ceilings_are_a_roofline() -> None:
    assert limit_of(info(10**9, 1000, 0), FAST, 1000) == ("compute", pytest.approx(0.01))
    assert limit_of(info(10**9, 1000, 0, "f64"), FAST, 0) == ("compute", pytest.approx(0.02))
    assert limit_of(info(10**9, 1000, 0, "bf16"), FAST, 0) == ("compute", pytest.approx(0.005))
    small, large = 1 << 19, 1 << 25
    assert limit_of(info(1, small, 0), FAST, 0) == ("L2", pytest.approx(small / 100e9))
    assert limit_of(info(1, large, 0), FAST, 0) == ("DRAM", pytest.approx(large / 10e9))
    # Weights come from where all that a call touches lies, activations from near.
    bound, least = limit_of(info(1, 1000, small), FAST, large)
    assert bound == "DRAM" and least == pytest.approx(1000 / 100e9 + small / 10e9)
    assert limit_of(info(10**12, 10, 0, "i8"), FAST, 0)[0] == "L2"
    assert limit_of(replace(info(1, 1, 1), work=None), FAST, 0) == ("", None)


def test_the_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = compile_convnet(**QUICK, options={"profile": True}).library_model()
    functions = declared(model.library.functions, profiler._FUNCTIONS, "profiled")
    monkeypatch.setattr("cuvil.runtime.ceilings._REPEATS", 5)
    monkeypatch.setattr("cuvil.runtime.ceilings._LARGEST", 32 << 20)
    found = ceilings_of(functions, "cpu", (1 << 20, 16 << 20), 1, tmp_path)
    assert 1e8 < found.flops <= found.pair_flops < 1e14 and list(found.read) == ["L2", "L3", "DRAM"]
    assert all(1e7 < rate < 1e13 for rate in found.read.values())
    assert found.sizes == {"L2": 1 << 20, "L3": 16 << 20}
    assert ceilings_of(None, "cpu", (1 << 20, 16 << 20), 1, tmp_path) == found
    (tmp_path / "ceilings.json").write_text('{"damaged": {"flops": -1}}')
    two = ceilings_of(functions, "cpu", (1 << 20, 16 << 20), 2, tmp_path)
    assert two.threads == 2 and two.flops > 1e8
