"""Loading: what is checked, how fast, what is left behind."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cuvil.errors import ArtifactError, InputError
from cuvil.package.format import write_package
from cuvil.runtime import load, native
from cuvil.runtime.cpu import cgroup_quota, cpu_flags, usable_threads
from cuvil.runtime.loader import check_machine
from cuvil.runtime.pool import REGISTRY
from tests.runtime import sample as samples

ROOT = Path(__file__).resolve().parents[2]
W = samples.WEIGHTS[:8]
X = np.arange(16, dtype=np.float32).reshape(2, 8)


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.package(samples.scale(), tmp_path_factory.mktemp("packages"))


def run_python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fresh_process_is_fast_and_imports_little(tmp_path: Path) -> None:
    made = samples.scale()
    size = 90 << 20
    big = replace(made, manifest=replace(made.manifest, name="scale90", weights_bytes=size))
    path = tmp_path / "big.cuvilpkg"
    weights = np.ones(size // 4, np.float32)
    write_package(path, big.manifest, samples.library(big), [(0, weights)], sync=False)
    told = run_python(f"""
import sys, time, numpy as np
start = time.perf_counter()
from cuvil.runtime import load
artifact = load({str(path)!r})
y = artifact(np.zeros((2, 8), np.float32))
print(time.perf_counter() - start, y.sum())
allowed = ("errors", "options", "sym", "ir", "package", "runtime", "version")
print([m for m in sys.modules if m in ("torch", "onnx", "z3", "tempfile", "ziglang")
       or m.startswith("cuvil.") and m.split(".")[1] not in allowed])
""").split("\n")
    seconds, total = told[0].split()
    assert float(total) == 16 and told[1] == "[]"
    # 33 ms with compiled bytecode; the bound allows for a busy machine and a first import.
    assert float(seconds) < 0.4


def test_damage_is_found_at_load(scale: Path, tmp_path: Path) -> None:
    good = scale.read_bytes()
    bad = tmp_path / "bad.cuvilpkg"
    bad.write_bytes(good)
    order = random.Random(11)
    with open(bad, "r+b") as file:
        for at in range(len(good)):
            file.seek(at)
            file.write(bytes([good[at] ^ (1 << order.randrange(8))]))
            file.flush()
            with pytest.raises(ArtifactError):
                load(bad)
            file.seek(at)
            file.write(good[at : at + 1])
    np.testing.assert_array_equal(load(bad)(X), 2 * X + W)


def test_unverified_weights_are_the_callers_choice(scale: Path, tmp_path: Path) -> None:
    data = bytearray(scale.read_bytes())
    data[-64:] = bytes(64)
    bad = tmp_path / "bad.cuvilpkg"
    bad.write_bytes(data)
    with pytest.raises(ArtifactError, match="weights were altered"):
        load(bad)
    np.testing.assert_array_equal(load(bad, verify_weights=False)(X), 2 * X)


def test_threads_are_checked(scale: Path) -> None:
    for bad in (0, -1, 1.5, True, "2", 1 << 40):
        with pytest.raises(InputError, match="threads is"):
            load(scale, threads=bad)  # type: ignore[arg-type]
    assert load(scale, threads=3).threads == 3
    assert load(scale).threads == usable_threads()


def test_a_package_may_not_ask_for_more_threads_than_there_are(tmp_path: Path) -> None:
    made = samples.scale(threads=1000)
    assert load(samples.package(made, tmp_path)).threads == usable_threads()


def test_artifacts_share_one_pool(tmp_path: Path) -> None:
    path = samples.package(samples.pair(), tmp_path)
    first, second, single = load(path, threads=2), load(path, threads=2), load(path, threads=1)
    assert first._model and second._model and single._model
    assert first._model.library is not second._model.library
    assert REGISTRY.pool(first._model.library, 2) == REGISTRY.pool(second._model.library, 2) != 0
    assert REGISTRY.pool(single._model.library, 1) == 0
    count = len(os.listdir("/proc/self/task"))
    more = [load(path, threads=2) for _ in range(5)]
    for artifact in more:
        artifact(np.ones((8, 3), np.float32), np.ones(1, np.int64))
    assert len(os.listdir("/proc/self/task")) == count


def mapped(what: str = "memfd:cuvil") -> int:
    return sum(what in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_closing_unmaps_library_and_weights(scale: Path) -> None:
    gc.collect()
    before, files = mapped(), len(os.listdir("/proc/self/fd"))
    weights = mapped(str(scale))
    for _ in range(20):
        artifact = load(scale, threads=1)
        np.testing.assert_array_equal(artifact(X), 2 * X + W)
        artifact.close()
    with load(scale, threads=1) as inside:
        assert mapped() > before
        assert inside(X).shape == (2, 8)
    gc.collect()
    assert mapped() == before and len(os.listdir("/proc/self/fd")) == files
    assert mapped(str(scale)) == weights


def test_libraries_are_never_mixed_up(tmp_path: Path) -> None:
    """The loader knows libraries by path, and descriptor numbers come again."""
    one, two = (samples.package(s, tmp_path) for s in (samples.scale(), samples.pair()))
    kept = [load(path, threads=1) for path in (one, two) * 10]
    names = [a._model.library.functions.cuvil_weights_size() for a in kept if a._model]
    assert names == [64, 0] * 10


def test_without_memfd_a_private_file_is_used(scale: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    before = mapped()
    np.testing.assert_array_equal(load(scale, threads=1)(X), 2 * X + W)
    assert mapped() == before
    assert not [p for f in native._FOLDERS for p in Path(f).glob(f"cuvil-{os.getpid()}-*")]


def test_a_library_that_is_none(tmp_path: Path) -> None:
    made = samples.scale()
    for name, image in (("junk", b"\x7fELF" + bytes(1000)), ("text", b"hello")):
        path = tmp_path / f"{name}.cuvilpkg"
        write_package(path, replace(made.manifest, weights_bytes=0), image, sync=False)
        with pytest.raises(ArtifactError, match="library can't be loaded"):
            load(path)
    write_package(path, made.manifest, samples.library(samples.pair()), sync=False)
    with pytest.raises(ArtifactError, match="do not belong together"):
        load(path)


def test_other_machines_are_refused() -> None:
    manifest = replace(samples.scale().manifest, cpu_features=("avx2", "avx10.9"))
    flags = cpu_flags() | {"avx2"}
    with pytest.raises(ArtifactError, match="this CPU lacks avx10.9, which it was"):
        check_machine(manifest, "Linux", "x86_64", flags)
    check_machine(manifest, "Linux", "x86_64", flags | {"avx10.9"})
    for system, machine in (("Darwin", "x86_64"), ("Linux", "riscv64"), ("Linux", "aarch64")):
        with pytest.raises(ArtifactError, match=f"this machine is {machine} with {system}"):
            check_machine(manifest, system, machine, flags | {"avx10.9"})


def test_a_forked_child_gets_its_own_threads(tmp_path: Path) -> None:
    path = samples.package(samples.pair(), tmp_path)
    told = run_python(f"""
import os, numpy as np
from cuvil.runtime import load
artifact = load({str(path)!r}, threads=2)
a, b = np.ones((16, 9), np.float32), np.ones(4, np.int64)
for _ in range(3):
    artifact(a, b)
for _ in range(3):
    child = os.fork()
    if child == 0:
        for _ in range(50):
            rows, b2 = artifact(a, b)
        assert (rows == 9).all() and (b2 == 10).all()
        os._exit(40 + len(os.listdir("/proc/self/task")))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(artifact(a, b)[0].sum())
""")
    assert told.split() == ["42", "42", "42", "144.0"]


def test_cgroup_quotas(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "self"
    (root / "a/b").mkdir(parents=True)
    own.write_text("0::/a/b\n")
    assert cgroup_quota(own, root) is None
    (root / "a/b/cpu.max").write_text("max 100000\n")
    assert cgroup_quota(own, root) is None
    (root / "a/cpu.max").write_text("150000 100000\n")
    assert cgroup_quota(own, root) == 1.5
    (root / "cpu.max").write_text("50000 100000\n")
    assert cgroup_quota(own, root) == 0.5
    old = tmp_path / "v1"
    (old / "cpu,cpuacct/job").mkdir(parents=True)
    (old / "cpu,cpuacct/job/cpu.cfs_quota_us").write_text("300000\n")
    (old / "cpu,cpuacct/job/cpu.cfs_period_us").write_text("100000\n")
    own.write_text("5:memory:/job\n4:cpu,cpuacct:/job\n")
    assert cgroup_quota(own, old) == 3
    (old / "cpu,cpuacct/job/cpu.cfs_quota_us").write_text("-1\n")
    assert cgroup_quota(own, old) is None
    assert cgroup_quota(tmp_path / "none", root) is None
    assert usable_threads() >= 1
