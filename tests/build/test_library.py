"""Compiling and linking: what comes out, what is reused, what an error says."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cuvil.build.driver import compile_flags, compile_object, link
from cuvil.build.includes import included, needed_core
from cuvil.build.library import (
    NATIVE_DIR,
    TABLES,
    build_library,
    built_variants,
    core_id,
    native_sources,
)
from cuvil.build.store import ObjectStore, digest_of
from cuvil.codegen.abi import emit_abi
from cuvil.errors import TargetError
from cuvil.options import Options
from cuvil.target.native import native_target
from cuvil.target.registry import TARGETS, find_target
from tests.build.elf import (
    DT_NEEDED,
    DT_RPATH,
    DT_RUNPATH,
    DT_TEXTREL,
    EXECUTE,
    PT_LOAD,
    WRITE,
    Elf,
)
from tests.runtime import sample as samples

ROOT = Path(__file__).resolve().parents[2]
# Taken from the process that loads the library if it has them; none is required.
WEAK = {"malloc", "free", "pthread_create", "pthread_join"}


def sources(made: samples.Sample) -> dict[str, str]:
    return {"tables": emit_abi(made.manifest), "model": made.code}


def test_a_library_needs_nothing_and_offers_only_its_interface() -> None:
    image = samples.library(samples.pair())
    elf = Elf(image)
    assert not elf.tags() & {DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_TEXTREL}
    symbols = elf.symbols()
    offered = {name for name, defined in symbols.items() if defined}
    header = (NATIVE_DIR / "abi.h").read_text()
    declared = {line.split("(")[0].split()[-1].lstrip("*") for line in header.splitlines()
                if line.startswith("CUVIL_API ")}  # fmt: skip
    assert offered == declared and len(declared) == 18
    assert {name for name, defined in symbols.items() if not defined} <= WEAK
    assert not any(s[1] & WRITE and s[1] & EXECUTE for s in elf.segments)
    assert any(s[0] == PT_LOAD and s[1] & EXECUTE for s in elf.segments)
    assert len(image) < 40_000


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    made, target = sources(samples.scale()), native_target()
    first = build_library(made, target, Options(tmp_path / "one"))
    second = build_library(made, target, Options(tmp_path / "two" / "deeper", jobs=1))
    assert first == second


def test_objects_are_reused_and_damaged_ones_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(source: str, name: str, *rest: object) -> bytes:
        calls.append(name)
        return compile_object(source, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("cuvil.build.library.compile_object", counted)
    made, target, options = sources(samples.scale()), native_target(), Options(tmp_path)
    first = build_library(made, target, options)
    core = {"core_abi.cpp", "core_mem.cpp", "core_threads.cpp"}
    assert {"tables", "model", *core} == set(calls)
    calls.clear()
    assert build_library(made, target, options) == first and calls == []
    other = {**made, "model": made["model"].replace("2 * x", "3 * x")}
    assert build_library(other, target, options) != first and calls == ["model"]
    calls.clear()
    for path in (tmp_path / "objects").glob("*/*"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert build_library(made, target, options) == first and len(calls) == 5
    assert not list((tmp_path / "tmp").iterdir())


def test_core_units_follow_what_is_included() -> None:
    native = {
        "abi.h": "", "abi.hpp": "", "core_abi.cpp": '#include "abi.hpp"\n#include "threads.hpp"\n',
        "threads.hpp": "", "core_threads.cpp": '#include "threads.hpp"\n', "core_mem.cpp": "",
        "gemm.hpp": '#include "vec.hpp"\n', "vec.hpp": "",
        "core_gemm.cpp": '  # include "gemm.hpp"\n#include "tile.hpp"\n',
        "tile.hpp": "", "core_tile.cpp": '#include "tile.hpp"\n',
        "conv.hpp": '#include "gemm.hpp"\n', "core_conv.cpp": '#include "conv.hpp"\n',
    }  # fmt: skip
    plain = '#include "abi.hpp"\n// #include "conv.hpp"\n'
    base = ("core_abi.cpp", "core_mem.cpp", "core_threads.cpp")
    assert needed_core([plain], native) == base
    gemm = needed_core([plain + '#include "gemm.hpp"\n'], native)
    assert set(gemm) == {*base, "core_gemm.cpp", "core_tile.cpp"}
    assert set(needed_core(['#include "conv.hpp"\n'], native)) == {*gemm, "core_conv.cpp"}
    assert included('#include "conv.hpp"', native) == {"conv.hpp", "gemm.hpp", "vec.hpp"}


def test_the_core_id_follows_the_pool() -> None:
    native = native_sources()
    assert len(core_id(native)) == 16
    changed = {**native, "threads.hpp": native["threads.hpp"] + "\n"}
    assert core_id(changed) != core_id(native)
    assert core_id({**native, "gemm.hpp": "x"}) == core_id(native)


def test_a_compiler_error_is_shown(tmp_path: Path) -> None:
    target = native_target()
    source = "int f() {\n  return undeclared_name;\n}\n"
    with pytest.raises(TargetError) as caught:
        compile_object(source, "my unit", compile_flags(target), NATIVE_DIR, tmp_path)
    text = str(caught.value)
    assert "refused my unit" in text and "my_unit.cpp:2:10: error:" in text
    assert "undeclared_name" in text and str(tmp_path) not in text
    assert len(text.splitlines()) < 16 and not list(tmp_path.iterdir())


def test_what_nothing_defines_is_a_link_error(tmp_path: Path) -> None:
    target = native_target()
    source = 'void missing();\nextern "C" __attribute__((visibility("default"))) void cuvil_x() {\n'
    source += "  missing();\n}\n"
    made = compile_object(source, "u", compile_flags(target), NATIVE_DIR, tmp_path)
    with pytest.raises(TargetError, match="undefined symbol: missing"):
        link({"u": made}, target, tmp_path)
    with pytest.raises(TargetError, match="linking for x86_64-macos is not supported"):
        link({}, replace(target, triple="x86_64-macos"), tmp_path)


def test_no_compiler_and_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(TargetError, match="no place to work"):
        link({}, native_target(), blocked)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TargetError, match="needs the package ziglang"):
        link({}, native_target(), tmp_path)


@pytest.mark.parametrize("name", [n for n, t in TARGETS.items() if t.kind == "library"])
def test_every_target_builds(name: str) -> None:
    target = find_target(name)
    made = samples.pair()
    manifest = replace(made.manifest, target=target.triple, cpu_features=target.cpu_features)
    variants = built_variants({"model": made.code}, target)
    units = {TABLES: emit_abi(manifest, variants), "model": made.code}
    elf = Elf(build_library(units, target, Options(samples.cache_dir())))
    assert elf.machine == {"x86_64": 62, "aarch64": 183}[target.arch]
    assert DT_NEEDED not in elf.tags()


def test_two_processes_build_at_once(tmp_path: Path) -> None:
    program = f"""
import hashlib, sys
from pathlib import Path
from cuvil.build.library import build_library
from cuvil.options import Options
from cuvil.target.native import native_target
from tests.build.test_library import sources
from tests.runtime.sample import scale
made = build_library(sources(scale()), native_target(), Options(Path({str(tmp_path)!r}), jobs=1))
print(hashlib.sha256(made).hexdigest())
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=60)[0] for process in started]
    assert [p.returncode for p in started] == [0, 0]
    assert told[0] == told[1] and len(told[0]) == 65
    assert not list((tmp_path / "tmp").iterdir())


def test_the_store(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    key = digest_of(["a", b"b"])
    assert store.get(key) is None
    store.put(key, b"blob")
    assert store.get(key) == b"blob"
    assert digest_of(["ab"]) != digest_of(["a", "b"]) != digest_of(["", "ab"])
    path = tmp_path / key[:2] / key[2:]
    for bad in (b"", path.read_bytes()[:-1], path.read_bytes() + b"x"):
        path.write_bytes(bad)
        assert store.get(key) is None
    blocked = tmp_path / "file"
    blocked.write_text("")
    ObjectStore(blocked).put(key, b"blob")
    assert ObjectStore(blocked).get(key) is None
