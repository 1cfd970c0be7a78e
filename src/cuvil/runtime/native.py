"""A model's library in memory: mapped, bound to its weights, called."""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuvil.errors import ArtifactError
from cuvil.package.format import Package
from cuvil.package.manifest import ABI_VERSION
from cuvil.runtime.pool import REGISTRY

_POINTER = ctypes.c_void_p
_FOLDERS = ("/dev/shm", "/tmp", "/var/tmp", ".")
# name: (result, arguments); as native/abi.h has them
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cuvil_abi_version": (ctypes.c_int32, ()),
    "cuvil_core_id": (ctypes.c_uint64, ()),
    "cuvil_weights_size": (ctypes.c_uint64, ()),
    "cuvil_create": (ctypes.c_int32, (_POINTER, ctypes.c_uint64) + (_POINTER,) * 3),
    "cuvil_destroy": (None, (_POINTER,)),
    "cuvil_workspace_raw": (ctypes.c_int64, (_POINTER, _POINTER)),
    "cuvil_run_raw": (ctypes.c_int32, (_POINTER,) * 6),
    "cuvil_free": (None, (_POINTER,)),
    "cuvil_pool_create": (_POINTER, (ctypes.c_int32,)),
    "cuvil_hash64": (ctypes.c_uint64, (_POINTER, ctypes.c_uint64, ctypes.c_uint64)),
}


# Of libraries since variants: asked only where one is named.
_VARIANT_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cuvil_create_variant": (ctypes.c_int32, (ctypes.c_char_p, _POINTER, ctypes.c_uint64)
                             + (_POINTER,) * 3),
    "cuvil_variant": (ctypes.c_char_p, (_POINTER,)),
}  # fmt: skip


class Status(ctypes.Structure):
    """cuvil_status of native/abi.h."""

    _fields_ = [
        ("code", ctypes.c_int32),
        ("index", ctypes.c_int32),
        ("axis", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("message", ctypes.c_char * 240),
    ]


class NativeLibrary:
    """A loaded library; unloaded when the last reference to it goes."""

    def __init__(self, image: bytes) -> None:
        """Raises ArtifactError if the image can't be loaded or is of another ABI version."""
        self._handle = _load_image(image)
        weakref.finalize(self, _ctypes.dlclose, self._handle).atexit = False
        library = declared(ctypes.CDLL("", handle=self._handle), _FUNCTIONS, "run as a model")
        if all(hasattr(library, name) for name in _VARIANT_FUNCTIONS):
            declared(library, _VARIANT_FUNCTIONS, "asked for its variants")
        version = library.cuvil_abi_version()
        if version != ABI_VERSION:
            raise ArtifactError(
                f"the package's library has ABI version {version}; this cuvil runs {ABI_VERSION}",
                hint="compile the model again with this version",
            )
        self.functions = library
        self.core_id: int = library.cuvil_core_id()
        if hasattr(library, "cuvil_profile_into"):
            # Its threads report to this library alone, so it shares them with no other.
            self.core_id = -REGISTRY.unique_number()
        self.profile_lock = threading.Lock()  # its slices go to one caller at a time

    def set_host_function(self, function: Any) -> None:
        """Let the library call back; only for one that holds such operators."""
        self.functions.cuvil_set_host_function(function)

    def pool_create(self, threads: int) -> int:
        """The address of a new thread pool, 0 if there can be none."""
        return self.functions.cuvil_pool_create(threads) or 0

    def hash64(self, address: int, count: int) -> int:
        """hash64 with seed 0 of ``count`` bytes in memory."""
        return int(self.functions.cuvil_hash64(address, count, 0))


class Model:
    """A library with its weights and threads.

    ``address`` is the cuvil_model; it and the weights live as long as this object, so whoever
    runs it holds a reference meanwhile. ``call`` is ``run`` without ctypes' conversions: a pointer
    is bytes, None or what c_void_p.from_param made, as ``argument`` is of the address; an int would
    lose its upper half.
    """

    def __init__(
        self, library: NativeLibrary, package: Package, threads: int, variant: str = ""
    ) -> None:
        """``variant`` names one of the library's, the best for this CPU if it is empty.

        Raises ArtifactError if the library refuses the weights, the variant or the CPU."""
        self.library = library
        self._asked = variant
        self.package = package
        self.threads = threads
        self.run = library.functions.cuvil_run_raw
        self.call = library.functions["cuvil_run_raw"]  # one of its own, with nothing declared
        self.plans: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self._stale = False
        self._take(self._create())
        REGISTRY.add(self)

    def _take(self, address: int) -> None:
        self.address = address
        self.argument = _POINTER.from_param(address)

    def _create(self) -> int:
        pool = REGISTRY.pool(self.library, self.threads)
        place, status = ctypes.c_void_p(), Status()
        functions = self.library.functions
        rest = (
            self.package.weights_address or None, self.package.manifest.weights_bytes,
            pool or None, ctypes.byref(place), ctypes.byref(status),
        )  # fmt: skip
        if self._asked:
            code = functions.cuvil_create_variant(self._asked.encode(), *rest)
        else:
            code = functions.cuvil_create(*rest)
        if code or not place.value:
            text = status.message.decode("utf-8", "replace")
            hint = "CUVIL_VARIANT asks for that code; unset it for the best" if self._asked else ""
            raise ArtifactError(f"the package's library refused to start: {text}", hint=hint)
        destroy = functions.cuvil_destroy
        # The finalizer holds library and package: they go after the model.
        keep = (self.library, self.package)
        ending = weakref.finalize(self, lambda address, _: destroy(address), place.value, keep)
        ending.atexit = False
        return place.value

    @property
    def variant(self) -> str:
        """The name of the library's variant that runs, empty where it has one code only."""
        return str(self.library.functions.cuvil_variant(self.address).decode())

    def workspace_bytes(self, symbols: bytes) -> int:
        """Bytes of workspace at these symbol values (packed int64)."""
        self._refresh()
        return int(self.library.functions.cuvil_workspace_raw(self.address, symbols))

    def forked(self) -> None:
        """After a fork, in the child: forget the threads; plans go, so the next call notices."""
        self._lock = threading.Lock()
        self._stale = True
        self.plans.clear()

    def _refresh(self) -> None:
        if self._stale:
            with self._lock:
                if self._stale:
                    self._take(self._create())
                    self._stale = False


def _load_image(image: bytes) -> int:
    """dlopen a library that is only in memory; the handle."""
    mode = os.RTLD_NOW | os.RTLD_LOCAL
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            descriptor = os.memfd_create("cuvil", os.MFD_CLOEXEC)
            try:
                _write_all(descriptor, image)
                return int(_ctypes.dlopen(_unique_path(descriptor), mode))
            finally:
                os.close(descriptor)
    try:
        return _load_from_folder(image, mode)
    except OSError as error:
        raise ArtifactError(
            f"the package's library can't be loaded: {error}",
            hint="the package may be for another kind of machine, or temporary files may not run",
        ) from None


def _load_from_folder(image: bytes, mode: int) -> int:
    """dlopen through a file that only this user can reach and that is gone on return."""
    for parent in _FOLDERS:
        folder = Path(parent) / f"cuvil-{os.getpid()}-{os.urandom(8).hex()}"
        try:
            folder.mkdir(mode=0o700)
        except OSError:
            continue
        path = folder / "model.so"
        try:
            path.write_bytes(image)
            return int(_ctypes.dlopen(str(path), mode))
        finally:
            path.unlink(missing_ok=True)
            folder.rmdir()
    raise OSError(f"none of {', '.join(_FOLDERS)} can be written")


def _unique_path(descriptor: int) -> str:
    """A spelling of the descriptor's path that was not used before.

    The dynamic loader takes a path it knows for the library it loaded under it, and descriptors'
    numbers come again: so a running number is written into the path, "//" for 0, "/./" for 1.
    """
    bits = f"{REGISTRY.unique_number():b}"
    return "/proc/self/fd" + "".join("/." if b == "1" else "/" for b in bits) + f"/{descriptor}"


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def declared(functions: Any, table: Mapping[str, tuple[Any, tuple[Any, ...]]], what: str) -> Any:
    """A library's functions, with the results and arguments of those in ``table`` declared.

    Raises ArtifactError, saying that the library can't be ``what``, where one is missing.
    """
    try:
        for name, (result, arguments) in table.items():
            function = getattr(functions, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise ArtifactError(f"the package's library can't be {what}: {error}") from None
    return functions
