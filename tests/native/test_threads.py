"""The thread pool: coverage, nesting, several callers, forks, single-threaded processes; and the
memory functions and the hash that live beside it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cuvil.package.hash64 import hash64

from . import harness_core as hc

I64, U64, I32, PTR = ctypes.c_int64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_void_p

SOURCE = """
#include <stddef.h>
#include "hash.hpp"
#include "threads.hpp"
using namespace cuvil;
extern "C" void* memcpy(void*, const void*, size_t);
extern "C" void* memmove(void*, const void*, size_t);
extern "C" void* memset(void*, int, size_t);
extern "C" int memcmp(const void*, const void*, size_t);

EXPORT Pool* create(int32_t n) { return pool_create(n); }
EXPORT void destroy(Pool* p) { pool_destroy(p); }
EXPORT int32_t threads(const Pool* p) { return pool_threads(p); }

// Adds one to every item of its range; counts ranges, and marks bad ones.
EXPORT void touch(Pool* p, int64_t n, int64_t grain, int32_t* items, int32_t* ranges,
                  int32_t* bad) {
  const int32_t limit = pool_threads(p);
  parallel_for(p, n, grain, [&](int64_t begin, int64_t end, int32_t thread) {
    __atomic_add_fetch(ranges, 1, __ATOMIC_RELAXED);
    const bool small = end - begin < grain && end - begin != n;
    if (begin % grain != 0 || begin >= end || small || thread < 0 || thread >= limit) *bad = 1;
    for (int64_t i = begin; i < end; ++i) ++items[i];
  });
}
// A loop inside every item of a loop; inner loops must run inline, as thread 0.
EXPORT void nest(Pool* p, int64_t n, int64_t m, int32_t* items, int32_t* bad) {
  parallel_for(p, n, 1, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      parallel_for(p, m, 1, [&](int64_t b, int64_t e, int32_t thread) {
        if (thread != 0 || b != 0 || e != m) *bad = 1;
        for (int64_t j = b; j < e; ++j) ++items[i * m + j];
      });
    }
  });
}
// Work that takes time: `rounds` dependent steps an item.
EXPORT void grind(Pool* p, int64_t n, int64_t rounds, uint64_t* out) {
  parallel_for(p, n, 1, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      uint64_t x = uint64_t(i);
      for (int64_t r = 0; r < rounds; ++r) x = x * 6364136223846793005ull + 1442695040888963407ull;
      out[i] = x;
    }
  });
}
// Two items that wait for each other; returns how many found the other.
EXPORT int32_t meet(Pool* p) {
  int32_t begun = 0, met = 0;
  parallel_for(p, 2, 1, [&](int64_t begin, int64_t end, int32_t) {
    __atomic_add_fetch(&begun, int32_t(end - begin), __ATOMIC_SEQ_CST);
    int64_t patience = int64_t(1) << 32;
    while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < 2 && --patience > 0) {
    }
    if (patience > 0 && end - begin == 1) __atomic_add_fetch(&met, 1, __ATOMIC_SEQ_CST);
  });
  return met;
}
EXPORT uint64_t hash(const void* p, uint64_t n, uint64_t seed) { return hash64(p, n, seed); }
EXPORT void copy(void* d, const void* s, uint64_t n) { memcpy(d, s, n); }
EXPORT void move(void* d, const void* s, uint64_t n) { memmove(d, s, n); }
EXPORT void fill(void* d, int32_t v, uint64_t n) { memset(d, v, n); }
EXPORT int32_t compare(const void* a, const void* b, uint64_t n) { return memcmp(a, b, n); }
"""
CORE = ["core_threads.cpp", "core_mem.cpp"]


def open_library(path: Path) -> ctypes.CDLL:
    lib = hc.load(path)
    lib.create.restype = PTR
    for name in ("destroy", "threads"):
        getattr(lib, name).argtypes = [PTR]
    lib.touch.argtypes = [PTR, I64, I64, PTR, PTR, PTR]
    lib.nest.argtypes = [PTR, I64, I64, PTR, PTR]
    lib.grind.argtypes = [PTR, I64, I64, PTR]
    lib.meet.argtypes = [PTR]
    lib.hash.restype, lib.hash.argtypes = U64, [PTR, U64, U64]
    lib.copy.argtypes = lib.move.argtypes = lib.compare.argtypes = [PTR, PTR, U64]
    lib.fill.argtypes = [PTR, I32, U64]
    return lib


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hc.build(tmp_path_factory.mktemp("threads"), SOURCE, CORE)


@pytest.fixture(scope="module")
def lib(path: Path) -> ctypes.CDLL:
    return open_library(path)


@pytest.fixture(scope="module")
def pool(lib: ctypes.CDLL) -> Iterator[int]:
    made = lib.create(3)
    yield made
    lib.destroy(made)


@pytest.mark.parametrize("grain", [1, 3, 16])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 16, 47, 48, 1000])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_item_once(lib: ctypes.CDLL, pool: int, threads: int, n: int, grain: int) -> None:
    chosen = pool if threads > 1 else None
    items, counts = np.zeros(max(n, 1), np.int32), np.zeros(2, np.int32)
    for _ in range(50):
        lib.touch(chosen, n, grain, hc.address(items), hc.address(counts), hc.address(counts[1:]))
    assert (items[:n] == 50).all() and counts[1] == 0
    assert counts[0] == 50 * (n > 0) or (threads > 1 and n >= 2 * grain)


def test_thread_counts(lib: ctypes.CDLL, pool: int) -> None:
    assert lib.threads(pool) == 3 and lib.threads(None) == 1
    assert lib.create(1) is None and lib.create(0) is None
    lib.destroy(None)


def test_nested_loops_run_inline(lib: ctypes.CDLL, pool: int) -> None:
    items, bad = np.zeros(40 * 7, np.int32), np.zeros(1, np.int32)
    for _ in range(100):
        lib.nest(pool, 40, 7, hc.address(items), hc.address(bad))
    assert (items == 100).all() and bad[0] == 0


def test_sleeping_workers_wake(lib: ctypes.CDLL) -> None:
    made = lib.create(2)
    out, want = np.zeros(64, np.uint64), np.zeros(64, np.uint64)
    lib.grind(None, 64, 50, hc.address(want))
    for pause in (0.0, 0.001, 0.02, 0.0):
        time.sleep(pause)  # beyond the spin, so that the workers sleep
        out[:] = 0
        lib.grind(made, 64, 50, hc.address(out))
        assert (out == want).all()
    lib.destroy(made)


def test_several_callers(lib: ctypes.CDLL, pool: int) -> None:
    want = np.zeros(64, np.uint64)
    lib.grind(None, 64, 20, hc.address(want))
    wrong: list[int] = []

    def caller(which: int) -> None:
        out = np.zeros(64, np.uint64)
        for _ in range(300):
            out[:] = 0
            lib.grind(pool, 64, 20, hc.address(out))
            if not (out == want).all():
                wrong.append(which)

    callers = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join(timeout=30)
    assert not wrong and not any(t.is_alive() for t in callers)


def test_many_pools(lib: ctypes.CDLL) -> None:
    out = np.zeros(8, np.uint64)
    for _ in range(50):
        made = lib.create(2)
        lib.grind(made, 8, 3, hc.address(out))
        lib.destroy(made)
    assert len(os.listdir("/proc/self/task")) < 50 if sys.platform == "linux" else True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_inline(path: Path) -> None:
    # In an interpreter of its own: forking one that has threads is what other tests must not do.
    script = f"""
import ctypes, os, sys
import numpy as np
lib = ctypes.CDLL({str(path)!r})
lib.create.restype = ctypes.c_void_p
lib.grind.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
lib.destroy.argtypes = [ctypes.c_void_p]
pool = lib.create(2)
a, b = np.zeros(32, np.uint64), np.zeros(32, np.uint64)
lib.grind(pool, 32, 100, a.ctypes.data)
child = os.fork()
lib.grind(pool, 32, 100, b.ctypes.data)
lib.destroy(pool)
if child == 0:
    os._exit(0 if (a == b).all() else 3)
assert (a == b).all()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=20, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_both_threads_take_part(lib: ctypes.CDLL) -> None:
    made = lib.create(2)
    try:
        # Each of the two items waits, for seconds at most, until the other has begun.
        assert [lib.meet(made) for _ in range(20)] == [2] * 20
    finally:
        lib.destroy(made)


def test_without_threads_in_the_process(tmp_path: Path) -> None:
    # A static program that has no pthread_create: the weak symbol is null.
    main = """
EXPORT void _start() {
  cuvil::Pool* p = cuvil::pool_create(4);
  long sum = 0;
  cuvil::parallel_for(p, 10, 1, [&](int64_t b, int64_t e, int32_t) {
    for (int64_t i = b; i < e; ++i) sum += i;
  });
  const long code = p == nullptr && cuvil::pool_threads(p) == 1 && sum == 45 ? 0 : 1;
  __asm__ volatile("syscall" : : "a"(60L), "D"(code) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
"""
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64":
        pytest.skip("the program is written for Linux on x86-64")
    source = tmp_path / "main.cpp"
    source.write_text('#include "threads.hpp"\n' + main.replace("EXPORT", 'extern "C"'))
    program = tmp_path / "main"
    command = [sys.executable, "-m", "ziglang", "c++", *hc.FLAGS, "-mcpu=x86_64", "-static"]
    command += [f"-I{hc.NATIVE}", str(source), *(str(hc.NATIVE / c) for c in CORE)]
    done = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([str(program)], timeout=10).returncode == 0


SIZES = [*range(300), 1000, 4095, 4096, 4097, 1 << 20, (1 << 20) + 77]


def test_copy_fill_compare(lib: ctypes.CDLL) -> None:
    rng = np.random.default_rng(0)
    source = rng.integers(0, 256, (1 << 20) + 200, dtype=np.uint8)
    for n in SIZES:
        for offset in (0, 3):
            out = np.full(n + 16, 99, np.uint8)
            lib.copy(out.ctypes.data + 8, source.ctypes.data + offset, n)
            assert (out[8 : n + 8] == source[offset : n + offset]).all()
            assert (out[:8] == 99).all() and (out[n + 8 :] == 99).all()
            lib.fill(out.ctypes.data + 8, 0x1A5, n)
            assert (out[8 : n + 8] == 0xA5).all()
            assert (out[:8] == 99).all() and (out[n + 8 :] == 99).all()
    a, b = source[:500].copy(), source[:500].copy()
    assert lib.compare(hc.address(a), hc.address(b), 500) == 0
    for place in (0, 7, 8, 255, 499):
        b[place] = a[place] ^ 0x81
        sign = 1 if a[place] > b[place] else -1
        assert lib.compare(hc.address(a), hc.address(b), 500) * sign > 0
        assert lib.compare(hc.address(a), hc.address(b), place) == 0
        b[place] = a[place]


@pytest.mark.parametrize("distance", [1, 5, 16, 63, 64, 200, 5000])
def test_move_overlapping(lib: ctypes.CDLL, distance: int) -> None:
    rng = np.random.default_rng(1)
    for n in (0, 1, 7, 20, 60, 64, 100, 128, 129, 200, 256, 700, 5000):
        for back in (False, True):
            data = rng.integers(0, 256, n + distance + 8, dtype=np.uint8)
            want = data.copy()
            start, to = (distance, 0) if back else (0, distance)
            want[to : to + n] = data[start : start + n]
            lib.move(data.ctypes.data + to, data.ctypes.data + start, n)
            assert (data == want).all()


def test_hash_is_the_same_in_both_languages(lib: ctypes.CDLL) -> None:
    data = np.random.default_rng(2).integers(0, 256, 100_000, dtype=np.uint8)
    for n in (0, 1, 7, 8, 9, 63, 64, 65, 32767, 32768, 32769, 100_000):
        for seed in (0, 1, (1 << 64) - 1):
            assert lib.hash(hc.address(data), n, seed) == hash64(data[:n], seed)
    assert hash64(b"cuvil", 3) == hash64(np.frombuffer(b"cuvil", np.uint8), 3)
    floats = np.arange(9, dtype=np.float32)
    assert hash64(floats) == hash64(floats.tobytes())
    with pytest.raises(ValueError, match="C-contiguous"):
        hash64(np.zeros((4, 4))[:, 1])


def test_hash_notices(lib: ctypes.CDLL) -> None:
    data = np.random.default_rng(3).integers(0, 256, 4096, dtype=np.uint8)
    seen = {hash64(data), hash64(data, 1), hash64(data[:-1]), hash64(np.append(data, np.uint8(0)))}
    count = 4
    for bit in range(0, 4096 * 8, 13):
        data[bit // 8] ^= 1 << bit % 8
        seen.add(hash64(data))
        data[bit // 8] ^= 1 << bit % 8
        count += 1
    words = data.view(np.uint64)
    for i in range(0, 500, 7):
        words[[i, i + 1]] = words[[i + 1, i]]
        seen.add(hash64(data))
        words[[i, i + 1]] = words[[i + 1, i]]
        count += 1
    for n in range(1, 64):  # zeros of different lengths
        seen.add(hash64(bytes(n)))
        count += 1
    assert len(seen) == count
