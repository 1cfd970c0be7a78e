"""From a package's path to something that can be called."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping

from cuvil.errors import ArtifactError
from cuvil.errors.arguments import PATH, whole
from cuvil.options import MOST_THREADS, threads_of_environment, variant_of_environment
from cuvil.package.bundle import held_packages
from cuvil.package.format import Package, StrPath, open_package
from cuvil.package.manifest import Manifest
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.callbacks import (
    Function,
    HostFunctions,
    InProcessArtifact,
    LateInProcessArtifact,
)
from cuvil.runtime.cpu import cpu_flags, usable_threads
from cuvil.runtime.host import HostPlan
from cuvil.runtime.host_artifact import HostArtifact
from cuvil.runtime.late_artifact import make_artifact
from cuvil.runtime.native import Model, NativeLibrary
from cuvil.runtime.tree import CallTree

THREADS = whole(1, MOST_THREADS).optional
_MACHINES = {"x86_64": ("x86_64", "AMD64"), "aarch64": ("aarch64", "arm64")}


class NotLoaded(ArtifactError):
    """A whole ``package`` that holds nothing for any process to load, such as a module for
    browsers."""

    def __init__(self, package: Package) -> None:
        names = ", ".join(held_packages(package)) or package.manifest.target
        super().__init__(
            f"{package.path} is for {names}: no process loads that",
            hint="save it in the form that is used there, or run it with `cuvil run`",
        )
        self.package = package


def load(
    path: StrPath,
    threads: int | None = None,
    *,
    verify_weights: bool = True,
    functions: Mapping[str, Function] | None = None,
) -> Artifact:
    """Load a package; of one for several targets the best that this machine can run.

    Of a library's variants the best for this CPU is taken, or the one that CUVIL_VARIANT names.
    ``threads`` None takes CUVIL_THREADS, else the package's own number, else as many as this
    process may use; 1 runs on the calling thread alone. ``verify_weights`` False skips
    reading all weights at load. ``functions`` are the Python functions that it calls back, by
    name. Raises ArtifactError if the package is damaged or not for this machine, NotLoaded if it is
    for none.
    """
    THREADS("threads", threads)
    PATH("path", path)
    if threads is None:
        threads = threads_of_environment()
    package = _for_this_machine(open_package(path))
    manifest = package.manifest
    tree = CallTree.read(manifest)
    host = manifest.extra.get("host")
    plan = HostPlan.read(host, manifest.signature) if host is not None else None
    check_machine(manifest, platform.system(), platform.machine(), cpu_flags())
    library = NativeLibrary(package.library)
    has_variants = bool(manifest.extra.get("variants"))
    _check_library(library, package)
    called = _host_functions(manifest, functions or {})
    if verify_weights:
        size = manifest.weights_bytes
        package.check_weights(library.hash64(package.weights_address, size))
    usable = usable_threads()
    # A package from a larger machine may ask for more than there is; a caller knows what he does.
    count = threads or min(manifest.threads or usable, usable)
    model = Model(library, package, count, variant_of_environment() if has_variants else "")
    if called is not None:
        called.attach(library)
        late = bool(manifest.signature.late)
        return (LateInProcessArtifact if late else InProcessArtifact)(model, tree, called)
    return make_artifact(model, tree) if plan is None else HostArtifact(model, tree, plan)


def _for_this_machine(package: Package) -> Package:
    """The package itself, or of a bundle the one to load here."""
    held = held_packages(package)
    libraries = [p for p in held.values() or (package,) if _is_library(p.manifest)]
    if not libraries:
        raise NotLoaded(package)
    if not held:
        return package
    name = best_target({name: item.manifest for name, item in held.items()})
    if name is None:
        raise ArtifactError(
            f"{package.path} is for {', '.join(held)}; this machine runs none of them in a process",
            hint="compile the model for this machine",
        )
    return held[name]


def _is_library(manifest: Manifest) -> bool:
    return bool(manifest.extra.get("kind", "library") == "library")


def best_target(manifests: Mapping[str, Manifest]) -> str | None:
    """The name of the one to load on this machine, None if there is none: it uses the most features
    of its CPU, and is the first of those."""
    flags = cpu_flags()
    fitting = {
        name: _features_used(manifest, flags)
        for name, manifest in manifests.items()
        if _is_library(manifest)
        and machine_fault(
            manifest.target, manifest.cpu_features, platform.system(), platform.machine(), flags
        )
        is None
    }
    return max(fitting, key=lambda name: fitting[name], default=None)


def _features_used(manifest: Manifest, flags: frozenset[str]) -> int:
    """How many features of a CPU its code uses: that of its best variant, if it has several."""
    variants = [v["cpu_features"] for v in manifest.extra.get("variants", ())]
    known = (manifest.cpu_features, *variants)
    return max((len(features) for features in known if flags.issuperset(features)), default=0)


def _host_functions(
    manifest: Manifest, functions: Mapping[str, Function]
) -> HostFunctions | None:
    """The functions that a package needs from this process; None if it needs none."""
    needed = manifest.extra.get("host_functions") or ()
    missing = [name for name in needed if name not in functions]
    if missing:
        raise ArtifactError(
            f"the package calls the Python function {missing[0]} of the process that compiled it",
            hint="compile the model in this process",
        )
    return HostFunctions({name: functions[name] for name in needed}) if needed else None


def check_machine(manifest: Manifest, system: str, machine: str, flags: frozenset[str]) -> None:
    """Raise ArtifactError unless code for the manifest's target can run here."""
    fault = machine_fault(manifest.target, manifest.cpu_features, system, machine, flags)
    if fault is not None:
        raise ArtifactError(f"the package is for {manifest.target}; {fault[0]}", hint=fault[1])


def machine_fault(
    triple: str, features: Iterable[str], system: str, machine: str, flags: frozenset[str]
) -> tuple[str, str] | None:
    """What a machine lacks to run code for a target, and what to do; None if nothing."""
    if system != "Linux" or machine not in _MACHINES.get(triple.split("-", 1)[0], ()):
        return (
            f"this machine is {machine} with {system}",
            "compile the model for this machine",
        )
    missing = [name for name in features if name not in flags]
    if missing and flags:
        return (
            f"this CPU lacks {', '.join(missing)}, which it was compiled for",
            "compile the model for an older CPU, such as target='x86_64_v3'",
        )
    return None


def _check_library(library: NativeLibrary, package: Package) -> None:
    if library.functions.cuvil_weights_size() != package.manifest.weights_bytes:
        raise ArtifactError(f"library and weights of {package.path} do not belong together")
