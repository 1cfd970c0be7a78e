"""Compilers that share a cache, and compilers that are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cuvil.api.workplace import check_package
from cuvil.build.cache import Cache
from cuvil.build.store import ObjectStore

ROOT = Path(__file__).resolve().parents[2]

COMPILE = """
import torch
from tests.e2e.models import compile_convnet, convnet, images
def work():
    torch.set_num_threads(1)
    model = convnet()
    artifact = compile_convnet(model)
    with torch.no_grad():
        assert torch.allclose(artifact(images(3)), model(images(3)), atol=1e-5)
"""

# Imports once, then compiles in forked children, so that a kill falls into the compiling.
TRIALS = COMPILE + """
import os, signal, sys, time
import torch.export, cuvil, cuvil.api, cuvil.frontends.torch_export
from cuvil.frontends.torch_export.fingerprint import fingerprint
def child():
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return pid
for line in sys.stdin:
    delay = float(line)
    start = time.perf_counter()
    pid = child()
    if delay >= 0:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    print(os.waitstatus_to_exitcode(status), time.perf_counter() - start, flush=True)
"""


def _environment(cache: Path) -> dict[str, str]:
    paths = f"{ROOT / 'src'}:{ROOT}"
    return {**os.environ, "PYTHONPATH": paths, "CUVIL_CACHE_DIR": str(cache)}


def _check_whole(folder: Path) -> None:
    """Whatever lies in the cache under its final name is whole."""
    cache = Cache(folder)
    for entry in cache.ls():
        check_package(entry.path)
    store = ObjectStore(folder / "objects")
    for path in (folder / "objects").glob("*/[!.]*"):
        assert store.get(path.parent.name + path.name) is not None, path
    for path in (folder / "aliases").glob("*/[!.]*"):
        assert cache.alias(path.parent.name + path.name) is not None, path


def test_two_processes_compile_the_same_model_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMPILE + "work()"]
    started = [
        subprocess.Popen(command, env=_environment(tmp_path), stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in started:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
    assert len(Cache(tmp_path).ls()) == 1
    _check_whole(tmp_path)
    left = [p for p in tmp_path.rglob("*") if p.is_file() and ".tmp" in p.name]
    assert left == [] and list((tmp_path / "tmp").iterdir()) == []


def _killed(folder: Path, trials: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TRIALS], env=_environment(folder), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None

    def trial(delay: float) -> tuple[int, float]:
        print(delay, file=process.stdin, flush=True)
        code, seconds = process.stdout.readline().split()  # type: ignore[union-attr]
        return int(code), float(seconds)

    try:
        code, whole = trial(-1)
        assert code == 0
        kills, last = 0, whole
        rng = random.Random(1)
        for index in range(trials):
            shutil.rmtree(folder / "artifacts", ignore_errors=True)
            if index % 4 == 0:  # the others find objects that earlier ones left
                Cache(folder).clear()
            code, taken = trial(last * rng.uniform(0.05, 0.8))
            last = whole if code else taken
            kills += code == -signal.SIGKILL
            _check_whole(folder)
        code, _ = trial(-1)
        assert code == 0 and kills >= trials // 3
        assert len(Cache(folder).ls()) == 1
        _check_whole(folder)
        Cache(folder).remove_stale(0)
        assert not [p for p in (folder / "tmp").rglob("*") if p.is_file()]
    finally:
        process.stdin.close()
        errors = process.stderr.read() if process.stderr is not None else ""
        assert process.wait(60) == 0, errors
        process.stdout.close()
        if process.stderr is not None:
            process.stderr.close()


def test_a_killed_compiler_leaves_nothing_half_written(tmp_path: Path) -> None:
    _killed(tmp_path, 4)


@pytest.mark.slow
def test_compilers_killed_at_many_points(tmp_path: Path) -> None:
    _killed(tmp_path, 24)
