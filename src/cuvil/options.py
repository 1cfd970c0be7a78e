"""Settings of this process; the environment is read here (and in the command line) only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cuvil.errors import InputError


@dataclass(frozen=True)
class Options:
    """How to build and run.

    ``cache_dir`` holds objects and artifacts; ``threads`` None means as many as this process may
    use; ``jobs`` is how many compilers run at once; ``cache_bytes`` bounds the artifact cache.
    """

    cache_dir: Path
    threads: int | None = None
    jobs: int = 2
    opt_level: int = 3
    cache_bytes: int = 8 << 30

    @staticmethod
    def from_environment(environ: Mapping[str, str] | None = None) -> Options:
        """CUVIL_CACHE_DIR, else XDG_CACHE_HOME/cuvil, else ~/.cache/cuvil; and CUVIL_THREADS.

        Raises InputError if CUVIL_THREADS is not a whole number of at least 1.
        """
        env = os.environ if environ is None else environ
        if env.get("CUVIL_CACHE_DIR"):
            cache_dir = Path(env["CUVIL_CACHE_DIR"])
        elif env.get("XDG_CACHE_HOME"):
            cache_dir = Path(env["XDG_CACHE_HOME"]) / "cuvil"
        else:
            cache_dir = Path("~/.cache/cuvil").expanduser()
        return Options(cache_dir.absolute(), threads_of_environment(env))


MOST_THREADS = 1024


def threads_of_environment(environ: Mapping[str, str] | None = None) -> int | None:
    """CUVIL_THREADS, None where it is not set.

    Raises InputError if it is not a whole number from 1 to MOST_THREADS.
    """
    env = os.environ if environ is None else environ
    text = env.get("CUVIL_THREADS", "").strip()
    if text and (not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_THREADS):
        raise InputError(
            f"CUVIL_THREADS is {text!r}", hint=f"set it to a whole number from 1 to {MOST_THREADS}"
        )
    return int(text) if text else None


def variant_of_environment(environ: Mapping[str, str] | None = None) -> str:
    """CUVIL_VARIANT: the variant that libraries with several are to run; empty for the best."""
    env = os.environ if environ is None else environ
    return env.get("CUVIL_VARIANT", "").strip()
