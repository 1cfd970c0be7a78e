"""Packages: what is written is what is read, and damage anywhere is found."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuvil.errors import ArtifactError
from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec
from cuvil.package.format import PAGE, open_package, write_package
from cuvil.package.hash64 import hash64, hash64_of_parts
from cuvil.package.manifest import Manifest

SOURCE = str(Path(__file__).resolve().parents[2] / "src")


def manifest(weights_bytes: int = 0) -> Manifest:
    return Manifest(
        "tiny",
        Signature(
            (TensorSpec("x", "f32", ("batch", 8, "2 * seq + 1")),),
            (TensorSpec("ý", "bool", ()),),
            (SymbolSpec("batch"), SymbolSpec("seq", 1, 512)),
            (ConstraintSpec("seq % 8 == 0", "user"),),
        ),
        "x86_64-linux-gnu",
        "x86_64_v3",
        ("avx2", "fma"),
        call={"outputs": {"kind": "leaf", "index": 0}},
        source={"frontend": "onnx", "ops": ["Relu"]},
        tolerance={"rtol": 1e-3},
        weights_bytes=weights_bytes,
        cuvil_version="0.1.0",
    )


def written(path: Path, weights_bytes: int = 2000, library: bytes = b"\x7fELF" * 50) -> Path:
    segment = np.arange(100, dtype=np.float32)
    weights = [(64, segment), (1024, b"abc"), (weights_bytes - 4, segment[5])]
    write_package(
        path, manifest(weights_bytes), library, weights if weights_bytes else (),
        {"report": b"fine", "empty": b""}, sync=False,
    )  # fmt: skip
    return path


def check(path: Path) -> None:
    package = open_package(path)
    package.check_weights()
    package.close()


def test_round_trip(tmp_path: Path) -> None:
    package = open_package(written(tmp_path / "m.cuvilpkg"))
    expected = manifest(2000).with_contents(
        library_sha256=package.manifest.library_sha256,
        weights_hash64=package.manifest.weights_hash64,
    )
    assert package.manifest == expected
    assert package.library == b"\x7fELF" * 50
    assert package.parts == {"report": b"fine", "empty": b""}
    weights = np.zeros(2000, np.uint8)
    weights[64:464] = np.arange(100, dtype=np.float32).view(np.uint8)
    weights[1024:1027] = list(b"abc")
    weights[1996:] = np.float32([5]).view(np.uint8)
    np.testing.assert_array_equal(package.weights, weights)
    assert package.weights_address % PAGE == 0
    package.check_weights()
    package.close()
    assert Manifest.from_json(expected.to_json()) == expected
    assert json.dumps(json.loads(expected.to_json()), sort_keys=True, separators=(",", ":")) == (
        expected.to_json()
    )


def test_the_hash_of_parts_is_that_of_all_bytes() -> None:
    parts = [(64, np.arange(100, dtype=np.float32)), (1024, b"abc"), (1088, b""), (1096, b"x" * 16)]
    for size in (1112, 1113, 2000):
        whole = np.zeros(size, np.uint8)
        for at, data in parts:
            raw = np.frombuffer(bytes(data), np.uint8)
            whole[at : at + raw.size] = raw
        assert hash64_of_parts(parts, size) == hash64(whole) == hash64(whole.tobytes())
        assert hash64_of_parts(parts, size, 7) == hash64(whole, 7) != hash64(whole)
    # A byte that differs anywhere, in a gap too, is another hash.
    assert len({hash64(bytes(i) + b"a" + bytes(99 - i)) for i in range(100)}) == 100


def test_a_package_without_weights_is_small(tmp_path: Path) -> None:
    path = written(tmp_path / "m.cuvilpkg", weights_bytes=0)
    assert path.stat().st_size < 1500
    package = open_package(path)
    assert package.weights.size == 0 and package.weights_address == 0
    package.check_weights()


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = written(tmp_path / "one.cuvilpkg"), written(tmp_path / "two.cuvilpkg")
    assert one.read_bytes() == two.read_bytes()


def refused(path: Path, *, contains: str = "") -> str:
    with pytest.raises(ArtifactError) as caught:
        check(path)
    assert str(path) in str(caught.value) and contains in str(caught.value)
    assert caught.value.hint
    return str(caught.value)


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    good = written(tmp_path / "m.cuvilpkg").read_bytes()
    bad = tmp_path / "bad.cuvilpkg"
    order = random.Random(3)
    bad.write_bytes(good)
    with open(bad, "r+b") as file:
        for at in range(len(good)):
            file.seek(at)
            file.write(bytes([good[at] ^ order.randint(1, 255)]))
            file.flush()
            refused(bad)
            file.seek(at)
            file.write(good[at : at + 1])
    check(bad)


def test_every_shorter_or_longer_file_is_found(tmp_path: Path) -> None:
    good = written(tmp_path / "m.cuvilpkg").read_bytes()
    bad = tmp_path / "bad.cuvilpkg"
    bad.write_bytes(good + b"\0")
    refused(bad, contains="1 bytes too many")
    for length in range(len(good) - 1, -1, -1):
        os.truncate(bad, length)
        words = "it is empty" if length == 0 else "truncated"
        refused(bad, contains=words)


def test_what_is_not_a_package(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"MZ" + bytes(5000))
    refused(other, contains="it is not a Cuvil package")
    other.write_bytes(b"\x7fELF" + bytes(5000))
    refused(other, contains="it is a compiled library, not a Cuvil package")
    refused(tmp_path, contains="not a regular file")
    refused(tmp_path / "missing", contains="there is no such file")
    refused(other / "below", contains="there is no such file")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", contains="not a regular file")
    refused(Path("/dev/null"), contains="not a regular file")
    with pytest.raises(ArtifactError, match="null"):
        open_package("a\0b")


def test_newer_files_say_so(tmp_path: Path) -> None:
    path = written(tmp_path / "m.cuvilpkg")
    data = bytearray(path.read_bytes())
    data[8:12] = struct.pack("<I", 7)
    path.write_bytes(data)
    assert "upgrade cuvil" in refused(path, contains="format version 7; this cuvil reads version 1")
    tree = json.loads(manifest().to_json())
    for key in ("format_version", "abi_version"):
        newer = tree[key] + 1
        with pytest.raises(ArtifactError, match=f"{key.replace('_', ' ')} {newer}; this cuvil"):
            Manifest.from_json(json.dumps({**tree, key: newer}))


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items: Any = enumerate(tree) if isinstance(tree, list) else ()
    for key, value in tree.items() if isinstance(tree, dict) else items:
        found += _places(value, (*path, key))
    return found


def test_odd_manifests_are_refused_or_understood() -> None:
    """Every part replaced by every odd value: an ArtifactError, or a manifest; nothing else."""
    text = manifest(64).to_json()
    odd = [None, True, -1, 1.5, 1 << 70, "", "x", "1 // 0", "(" * 300, [], {}, [[]], [{}], ["a"]]
    refusals = 0
    for path in _places(json.loads(text)):
        for value in odd:
            tree: Any = json.loads(text)
            if path:
                parent = tree
                for key in path[:-1]:
                    parent = parent[key]
                parent[path[-1]] = value
            else:
                tree = value
            try:
                Manifest.from_json(json.dumps(tree))
            except ArtifactError as error:
                assert str(error)
                refusals += 1
    assert refusals > 300
    for text in ("", "{", "[" * 100000, "\udc00", "NaN"):
        with pytest.raises(ArtifactError):
            Manifest.from_json(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: Signature(s.inputs * 2, s.outputs, s.symbols), "two inputs are named 'x'"),
        (lambda s: Signature((), s.outputs, s.symbols), "no input's shape tells the value"),
        (lambda s: Signature(s.inputs, s.outputs, s.symbols[:1]), "undeclared symbol 'seq'"),
        (
            lambda s: Signature((TensorSpec("x", "f33", ()),), (), ()),
            "unknown dtype 'f33'",
        ),
        (lambda s: Signature((TensorSpec("x", "f32", (1,) * 17),), (), ()), "rank 17, over 16"),
        (lambda s: Signature((TensorSpec("x", "f32", (-1,)),), (), ()), "negative dim -1"),
        (
            lambda s: Signature(s.inputs, (), s.symbols, (ConstraintSpec("z > 1"),)),
            "speaks of unknown 'z'",
        ),
        (
            lambda s: Signature(s.inputs, (), (SymbolSpec("batch"), SymbolSpec("seq", 9, 3))),
            "bad bounds: 9 <= seq <= 3",
        ),
    ],
)
def test_contradictions(change: Callable[[Signature], Signature], message: str) -> None:
    good = manifest()
    with pytest.raises(ArtifactError) as caught:
        Manifest.from_json(replace(good, signature=change(good.signature)).to_json())
    assert message in str(caught.value)


def test_bad_segments_and_places(tmp_path: Path) -> None:
    path = tmp_path / "m.cuvilpkg"
    for segments in ([(0, b"abcd"), (2, b"x")], [(60, b"abcde")], [(-1, b"a")]):
        with pytest.raises(ValueError, match="overlaps"):
            write_package(path, manifest(64), b"", segments)
    with pytest.raises(ArtifactError, match="cannot write"):
        write_package(tmp_path / "no" / "m.cuvilpkg", manifest(), b"")
    with pytest.raises(ArtifactError, match="cannot write"):
        write_package(tmp_path, manifest(), b"")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = written(tmp_path / "m.cuvilpkg")
    before = path.read_bytes()
    program = f"""
import sys, time
sys.path.insert(0, {SOURCE!r}); sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.package.test_format import manifest
from cuvil.package.format import write_package
def weights():
    yield 0, bytes(100000)
    print("half", flush=True)
    time.sleep(60)
write_package({str(path)!r}, manifest(200000), b"new", weights())
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert path.read_bytes() == before
    left = [p.name for p in tmp_path.iterdir() if p != path]
    assert all(name.startswith(".m.cuvilpkg.") and name.endswith(".tmp") for name in left)


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    def weights() -> Any:
        yield 0, b"abc"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_package(tmp_path / "m.cuvilpkg", manifest(64), b"", weights())
    assert list(tmp_path.iterdir()) == []


def test_opening_is_fast(tmp_path: Path) -> None:
    path = tmp_path / "m.cuvilpkg"
    size = 90 << 20
    write_package(path, manifest(size), bytes(1 << 20), [(0, np.ones(size // 4, "f4"))], sync=False)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        open_package(path).close()
        best = min(best, time.perf_counter() - start)
    assert best < 0.02
