"""The arena of a thread: grows at once, shrinks after a while, settles where sizes are mixed."""

from __future__ import annotations

import threading

from cuvil.runtime.arena import PATIENCE, Scratch, most_kept

MIB = 1 << 20


def _call(scratch: Scratch, size: int) -> int:
    """What a call does; the arena's size afterwards."""
    if not size <= scratch.arena.size <= most_kept(size):
        assert scratch.fit(size).size >= size
    return scratch.arena.size


def test_it_shrinks_after_many_small_calls() -> None:
    scratch = Scratch()
    assert _call(scratch, 64 * MIB) == 64 * MIB
    small = [_call(scratch, MIB * (1 + i % 3)) for i in range(PATIENCE)]
    assert small[:-1] == [64 * MIB] * (PATIENCE - 1)
    assert small[-1] == 3 * MIB  # what the largest of them needed


def test_small_arenas_and_those_in_use_stay() -> None:
    scratch = Scratch()
    _call(scratch, MIB)
    assert [_call(scratch, 64) for _ in range(4 * PATIENCE)][-1] == MIB
    _call(scratch, 8 * MIB)
    assert [_call(scratch, 2 * MIB) for _ in range(4 * PATIENCE)][-1] == 8 * MIB


def test_a_mix_of_sizes_settles_at_the_large_one() -> None:
    """Each time that shrinking was wrong, it takes twice as long until the next."""
    scratch = Scratch()
    grown, before = 0, 0
    for step in range(200_000):
        size = _call(scratch, 64 * MIB if step % 300 == 0 else 4096)
        grown += size > before
        before = size
    assert grown < 15, grown


def test_each_thread_has_its_own() -> None:
    scratch = Scratch()
    _call(scratch, MIB)
    found = []
    thread = threading.Thread(target=lambda: found.append(scratch.arena.size))
    thread.start()
    thread.join()
    assert found == [0] and scratch.arena.size == MIB
