"""The artifact cache: whole entries or none, by whichever process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuvil.build.cache import Cache
from cuvil.errors import ArtifactError, InputError
from cuvil.options import Options

ROOT = Path(__file__).resolve().parents[2]


def writer(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def test_put_get_list_drop_clear(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get("abcdef") is None and cache.ls() == [] and cache.clear() == 0
    path = cache.put("abcdef", writer(b"12345"))
    assert cache.get("abcdef") == path and path.read_bytes() == b"12345"
    cache.put("abcdff", writer(b"123"))
    assert cache.put("abcdef", writer(b"1234")) == path and path.read_bytes() == b"1234"
    assert {e.key: e.bytes for e in cache.ls()} == {"abcdef": 4, "abcdff": 3}
    assert cache.size() == 7
    cache.drop("abcdff")
    cache.drop("abcdff")
    (tmp_path / "objects" / "aa").mkdir(parents=True)
    (tmp_path / "objects" / "aa" / "x").write_bytes(b"9")
    assert cache.clear() == 5 and cache.size() == 0 and cache.get("abcdef") is None
    for key in ("", "a/b/c", "../../x", "é234"):
        with pytest.raises(ValueError, match="a cache key is"):
            cache.get(key)


def test_an_entry_that_is_refused_is_dropped(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.put("abcdef", writer(b"12345"))
    seen: list[Path] = []

    def refuse(place: Path) -> None:
        seen.append(place)
        raise ArtifactError("damaged")

    assert cache.get("abcdef", seen.append) == path
    assert cache.get("abcdef", refuse) is None
    assert seen == [path, path] and not path.exists()


def test_a_writer_that_raises_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def half(path: Path) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.put("abcdef", half)
    assert cache.get("abcdef") is None and not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_killed_writer_leaves_only_what_is_removed_later(tmp_path: Path) -> None:
    program = f"""
import time
from pathlib import Path
from cuvil.build.cache import Cache
def slow(path):
    path.write_bytes(b"half")
    print("half", flush=True)
    time.sleep(60)
Cache(Path({str(tmp_path)!r})).put("abcdef", slow)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == b"half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    cache = Cache(tmp_path)
    assert cache.get("abcdef") is None and cache.ls() == []
    (left,) = (p for p in tmp_path.rglob("*") if p.is_file())
    assert cache.put("abcdef", writer(b"whole")).read_bytes() == b"whole"
    assert left.exists()  # it might be another process' work in progress
    old = time.time() - 7200
    os.utime(left, (old, old))
    cache.put("bcdefg", writer(b""))
    assert not left.exists() and cache.size() == 5


def test_many_processes_put_the_same_key(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from cuvil.build.cache import Cache
cache = Cache(Path({str(tmp_path)!r}))
data = bytes([int(sys.argv[1])]) * 100000
for _ in range(100):
    found = cache.put("abcdef", lambda p: p.write_bytes(data)).read_bytes()
    assert len(found) == 100000 and len(set(found)) == 1
"""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(i)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        for i in range(2)
    ]
    assert [p.wait(60) for p in started] == [0, 0]
    assert [e.key for e in Cache(tmp_path).ls()] == ["abcdef"]


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=10)
    for age, key in enumerate(("aaaa", "bbbb", "cccc")):
        path = cache.put(key, writer(b"1234"))
        os.utime(path, (1000 - age, 1000 - age))
    # bbbb is older than aaaa here, and cccc oldest, but cccc was the one being put.
    assert {e.key for e in cache.ls()} == {"aaaa", "cccc"}
    assert cache.get("cccc") is not None
    cache.put("dddd", writer(b"1234"))
    assert {e.key for e in cache.ls()} == {"cccc", "dddd"}
    cache.put("eeee", writer(b"x" * 100))
    assert [e.key for e in cache.ls()] == ["eeee"]


def test_options_come_from_the_environment() -> None:
    read = Options.from_environment
    assert read({"CUVIL_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}).cache_dir == Path("/a")
    assert read({"XDG_CACHE_HOME": "/b"}).cache_dir == Path("/b/cuvil")
    assert read({}).cache_dir == Path.home() / ".cache" / "cuvil"
    assert read({"CUVIL_THREADS": " 3 "}).threads == 3
    assert read({"CUVIL_THREADS": ""}).threads is None
    for bad in ("0", "-1", "two", "1.5", "²", "1025"):
        with pytest.raises(InputError, match="CUVIL_THREADS is"):
            read({"CUVIL_THREADS": bad})
