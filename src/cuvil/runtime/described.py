"""What a package says of how it was made, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuvil.package.manifest import Manifest

BY_SIZE = "by_size"  # the key of `variants`: a library has variants for several CPUs as well


class Described:
    """Facts of a manifest that every form of an artifact has.

    ``retuner`` is what retunes a loaded one that was compiled with the option "retune": its
    ``changes`` are what was chosen in this process, ``stop()`` ends it.
    """

    retuner: Any = None

    @property
    def manifest(self) -> Manifest:
        """What the package says of itself."""
        raise NotImplementedError

    @property
    def tuning(self) -> dict[str, Any] | None:
        """What tuning found, to be given as ``options={"tune": ...}``; None if it was not tuned."""
        return self._extra("tuning")

    @property
    def variants(self) -> dict[str, Any] | None:
        """The table by which sizes choose kernels: ``ranges`` by symbol (low included, high not,
        None: no end), ``kernels`` with their versions in the order in which they are asked, and
        ``left_out``, how many had no room. None if the option was not given."""
        return self._extra(BY_SIZE)

    def _extra(self, key: str) -> dict[str, Any] | None:
        found = self.manifest.extra.get(key)
        return dict(found) if isinstance(found, Mapping) else None
