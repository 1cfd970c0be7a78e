"""Descriptions of machines."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from cuvil.errors import TargetError
from cuvil.target.features import X86_FEATURES, X86_V2, X86_V3, X86_V4
from cuvil.target.native import cache_sizes, cpu_flags, describe, native_target
from cuvil.target.registry import TARGETS, find_target, target_names

CACHES = (32768, 1 << 20, 0)


def cpuinfo(*names: str) -> str:
    return f"processor\t: 0\nmodel name\t: X\nflags\t\t: {' '.join(names)}\n\nflags\t: nonsense\n"


@pytest.mark.parametrize(
    ("names", "mcpu", "tile"),
    [
        ((), "x86_64", (16, 4, 8)),
        (X86_V2, "x86_64_v2", (16, 4, 8)),
        ((*X86_V3, "avx_vnni"), "x86_64_v3+avxvnni", (32, 6, 16)),
        (X86_V3[:-1], "x86_64_v2", (16, 4, 8)),
        ((*X86_V4, "avx_vnni", "avx512_fp16"), "x86_64_v4-prefer_256_bit", (64, 14, 32)),
        ((*X86_V4, "avx512_vnni"), "x86_64_v4+avx512vnni-prefer_256_bit", (64, 14, 32)),
    ],
)
def test_x86_levels(names: tuple[str, ...], mcpu: str, tile: tuple[int, int, int]) -> None:
    target = describe("x86_64", cpuinfo("fpu", *names), CACHES)
    assert target.mcpu == mcpu and (target.vec_bytes, target.mr, target.nr) == tile
    assert set(target.cpu_features) <= set(names) and set(target.cpu_features) <= set(X86_FEATURES)
    assert (target.l1_bytes, target.l2_bytes, target.l3_bytes) == CACHES
    assert target.arch == "x86_64" and f"-DCUVIL_NR={tile[2]}" in target.defines


def test_arm_and_others() -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd asimddp\n"
    target = describe("aarch64", text, CACHES)
    assert target.mcpu == "generic+dotprod" and target.cpu_features == ("asimd", "asimddp")
    assert describe("aarch64", "", CACHES).mcpu == "generic"
    with pytest.raises(TargetError, match="riscv64"):
        describe("riscv64", "", CACHES)


def test_native(monkeypatch: pytest.MonkeyPatch) -> None:
    target = find_target("native")
    assert target == native_target() and target.arch in (platform.machine(), "aarch64")
    assert set(target.cpu_features) <= cpu_flags(Path("/proc/cpuinfo").read_text())
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(TargetError, match="not available on Darwin"):
        native_target()


def test_registry() -> None:
    assert target_names()[0] == "native" and set(target_names()) > set(TARGETS)
    more = set(target_names()) - set(TARGETS) - {"native"}
    assert all(name.partition("-")[0] == "llvm" for name in more)
    for name, target in TARGETS.items():
        assert find_target(name) is target and target.name == name
        assert target.nr % (target.vec_bytes // 4) == 0
    with pytest.raises(TargetError, match="there is no target 'vax'") as caught:
        find_target("vax")
    assert "x86_64_v3" in str(caught.value)


def test_feature_bits_are_where_no_other_is() -> None:
    places = {(f.leaf, f.subleaf, f.register, f.bit) for f in X86_FEATURES.values()}
    assert len(places) == len(X86_FEATURES)
    assert len({f.llvm for f in X86_FEATURES.values()}) == len(X86_FEATURES)
    assert set(X86_V4) > set(X86_V3) > set(X86_V2)


def test_cache_sizes(tmp_path: Path) -> None:
    assert cache_sizes(tmp_path) == (32 << 10, 512 << 10, 8 << 20)
    for index, (level, size, kind) in enumerate(
        [("1", "48K", "Data"), ("1", "64K", "Instruction"), ("2", "2M", "Unified"), ("3", "?", "")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", level), ("size", size), ("type", kind)):
            (folder / name).write_text(text + "\n")
    assert cache_sizes(tmp_path) == (48 << 10, 2 << 20, 8 << 20)
