"""The one thread pool of a process, and the loaded models that use it.

``REGISTRY`` is the runtime's only module state: threads belong to the process, so their keeper
does too. A pool's threads run code of the library that made it, so that library stays loaded.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuvil.runtime.native import Model, NativeLibrary


class Registry:
    """Pools by (pool code's id, threads): with the default thread count, that is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[tuple[int, int], int] = {}
        self._makers: list[NativeLibrary] = []
        self._models: weakref.WeakSet[Model] = weakref.WeakSet()
        self._names = itertools.count(1)

    def pool(self, library: NativeLibrary, threads: int) -> int:
        """The address of a pool of that many threads, made by ``library`` if need be; 0 for 1."""
        if threads <= 1:
            return 0
        key = (library.core_id, threads)
        with self._lock:
            if key not in self._pools:
                address = library.pool_create(threads)
                if not address:
                    return 0
                self._pools[key] = address
                self._makers.append(library)
            return self._pools[key]

    def add(self, model: Model) -> None:
        """Remember a model, so that it is told of a fork."""
        with self._lock:
            self._models.add(model)

    def unique_number(self) -> int:
        """A number that was not given before."""
        return next(self._names)

    def after_fork(self) -> None:
        """In the child: its parent's threads are not there; models get new ones when called."""
        self._lock = threading.Lock()
        self._pools = {}
        for model in list(self._models):
            model.forked()


REGISTRY = Registry()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=REGISTRY.after_fork)
