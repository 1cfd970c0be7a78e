"""Operator cases of the onnx package, declared to be of every older opset whose operator still
takes them: the meaning is the same, but where the specification changed it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

import onnx
from onnx import checker, defs, shape_inference

from tools.onnx_cases import NodeCase, interpreted, node_cases

# Before 13 all dims from the axis on are one; before 7 a slope runs along the channels.
CHANGED = {"Softmax": 13, "LogSoftmax": 13, "Hardmax": 13, "PRelu": 7}


def _versions() -> dict[str, list[int]]:
    found = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found[schema.name].append(schema.since_version)
    return found


def _older(case: NodeCase, versions: list[int]) -> Iterator[tuple[int, NodeCase]]:
    """The case for each older version of its operator that takes the same inputs and attributes."""
    for version in sorted(v for v in versions if v < case.version):
        proto = onnx.ModelProto()
        proto.CopyFrom(case.model)
        for entry in proto.opset_import:
            if entry.domain == "":
                entry.version = version
        proto.ir_version = min(proto.ir_version, 10)
        try:
            checker.check_model(proto)
            shape_inference.infer_shapes(proto, strict_mode=True, check_type=True)
        except (checker.ValidationError, shape_inference.InferenceError):
            continue
        yield version, dataclasses.replace(case, model=proto)


def test_older_versions_mean_the_same() -> None:
    versions = _versions()
    tried, wrong = 0, []
    for case in node_cases():
        domain, _, name = case.operator.rpartition(".")
        if domain != "ai.onnx":
            continue
        for version, old in _older(case, versions[name]):
            if version < CHANGED.get(name, 0):
                continue
            tried += 1
            fault = interpreted(old).fault
            if fault:
                wrong.append(f"{case.name}, opset {version}: {fault}")
    assert not wrong, "\n".join(wrong[:20])
    assert tried > 2300
