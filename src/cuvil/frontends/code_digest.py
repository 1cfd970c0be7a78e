"""Functions, classes and modules in a digest: what the code that was loaded does.

Code that came with an installed distribution is known by that distribution's name, version and
record of files, and by the methods of the classes that are used, in case they were replaced.
Any other code is followed: bytecode, constants, defaults, closures, and every global it names.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import importlib.metadata
import os
import site
import sys
import sysconfig
import types
from collections.abc import Mapping
from typing import Any

from cuvil.frontends.object_digest import ObjectDigest

# Modules of the standard library whose functions depend on their arguments alone.
_PURE = frozenset({
    "__future__", "abc", "bisect", "builtins", "cmath", "collections", "contextlib", "copy",
    "dataclasses", "enum", "fractions", "functools", "heapq", "inspect", "itertools", "logging",
    "math", "numbers", "operator", "re", "string", "struct", "textwrap", "types", "typing",
    "typing_extensions", "warnings",
})  # fmt: skip
_IMPURE = frozenset({
    "open", "input", "eval", "exec", "compile", "__import__", "globals", "locals", "vars",
    "breakpoint", "id",
})  # fmt: skip
_READS_OUTSIDE = frozenset({
    "environ", "getenv", "load", "fromfile", "memmap", "loadtxt", "genfromtxt", "read_text",
    "read_bytes", "perf_counter", "urandom",
})  # fmt: skip
_NOT_BEHAVIOUR = frozenset({
    "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__",
    "__static_attributes__", "__abstractmethods__", "_abc_impl", "__qualname__",
    "__annotate_func__", "__annotations_cache__", "__parameters__", "__orig_bases__",
})  # fmt: skip
_DATA = (type(None), bool, int, float, complex, str, bytes)
_RUN_IN_MAIN = "__main__"


class InstalledCode:
    """Tells installed code from the user's, and names it. One object serves one digest."""

    def __init__(self) -> None:
        paths = sysconfig.get_paths()
        self._standard = tuple(
            os.path.realpath(paths[name]) + os.sep for name in ("stdlib", "platstdlib")
        )
        folders = {paths["purelib"], paths["platlib"], *site.getsitepackages()}
        if site.ENABLE_USER_SITE:
            folders.add(site.getusersitepackages())
        self._installed = tuple(os.path.realpath(f) + os.sep for f in folders)
        self._own = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
        self._names: dict[str, str | None] = {}
        self._files: dict[str, bool] = {}

    def name_of(self, module_name: str) -> str | None:
        """What identifies an installed module's code, None for a module of the user's."""
        top = module_name.partition(".")[0]
        if top not in self._names:
            self._names[top] = self._identity(top)
        return self._names[top]

    def made(self, function: types.FunctionType) -> bool:
        """Whether an installed module made this function, from its file or as dataclasses do."""
        filename = function.__code__.co_filename
        if filename == "<string>":
            # Text that anyone runs may say any name: the module's own namespace tells.
            name = str(function.__globals__.get("__name__"))
            own = vars(sys.modules[name]) if name in sys.modules else None
            return function.__globals__ is own and self.name_of(name) is not None
        return self._holds(filename)

    def class_from(self, cls: type) -> str | None:
        """What identifies the installed module that a class came with, None for another class.

        A class may bear any module's name. One that an installed module made is found there under
        its own, or has the functions of that module's file.
        """
        identity = self.name_of(cls.__module__)
        found: Any = sys.modules.get(cls.__module__)
        for part in cls.__qualname__.split("."):
            found = getattr(found, part, None)
        if identity is None or found is cls:
            return identity
        functions = [v for v in vars(cls).values() if isinstance(v, types.FunctionType)]
        return identity if functions and all(map(self.made, functions)) else None

    def _holds(self, filename: str) -> bool:
        if filename not in self._files:
            path = os.path.realpath(filename)
            frozen = filename.startswith("<frozen ")
            self._files[filename] = frozen or path.startswith(
                (*self._standard, *self._installed, self._own)
            )
        return self._files[filename]

    def _identity(self, top: str) -> str | None:
        if top == "cuvil":
            return "cuvil"  # the caller's key holds a digest of it
        if top in sys.stdlib_module_names:
            return f"python {sys.version}"
        module = sys.modules.get(top)
        place = getattr(module, "__file__", None) or ""
        if not os.path.realpath(place).startswith(self._installed):
            return None
        try:
            found = importlib.metadata.distribution(top)
        except (importlib.metadata.PackageNotFoundError, ValueError):
            return None
        record = found.read_text("RECORD")
        if not record:
            return None
        return f"{top} {found.version} {hashlib.sha256(record.encode()).hexdigest()}"


class LoadedCode:
    """Adds functions, classes and modules to a digest."""

    def __init__(self) -> None:
        self._installed = InstalledCode()
        self._checked: dict[int, types.FunctionType] = {}
        self._scanned: set[str] = set()

    def add_module(self, digest: ObjectDigest, module: types.ModuleType) -> None:
        """A module that code names: an installed one by its identity, another by its source."""
        name = module.__name__
        identity = self._installed.name_of(name)
        if identity is not None:
            self.check_pure(digest, name, "")
            digest.token("installed module", name, identity)
            return
        digest.token("module", name)
        self._add_source(digest, name)

    def check_pure(self, digest: ObjectDigest, module: str, name: str) -> None:
        """Refuse what the standard library has whose results vary: files, clocks, processes."""
        top = module.partition(".")[0]
        if (top in sys.stdlib_module_names and top not in _PURE) or name in _IMPURE:
            raise digest.refuse(f"code uses {module} {name}, whose results may vary")

    def _add_source(self, digest: ObjectDigest, name: str) -> None:
        path = getattr(sys.modules.get(name), "__file__", None)
        if not path or not path.endswith(".py"):
            raise digest.refuse(f"the module {name} has no source file")
        try:
            with open(path, "rb") as file:
                digest.token("source", hashlib.sha256(file.read()).digest())
        except OSError as error:
            raise digest.refuse(f"the source of {name} can't be read: {error}") from None

    def add_function(self, digest: ObjectDigest, function: types.FunctionType) -> None:
        """A function: its code and, unless it is installed, all that the code refers to."""
        code = function.__code__
        digest.token("function", function.__qualname__)
        add_code(digest, code)
        digest.add(function.__defaults__, "defaults")
        digest.add(function.__kwdefaults__, "defaults")
        for cell in function.__closure__ or ():
            digest.add(cell, "closure")
        wrapped = {k: v for k, v in function.__dict__.items() if k == "__wrapped__"}
        digest.add_items("attributes", wrapped.items())
        identity = self._installed.name_of(str(function.__module__))
        if identity is not None and self._installed.made(function):
            self.check_pure(digest, str(function.__module__), "")
            digest.token("installed", str(function.__module__), identity)
            return
        self._add_globals(digest, function, code)

    def _add_globals(
        self, digest: ObjectDigest, function: types.FunctionType, code: types.CodeType
    ) -> None:
        names, attributes, imports = _references(code)
        varying = sorted(_READS_OUTSIDE.intersection(attributes))
        if varying:
            raise digest.refuse(f"{function.__qualname__} uses {varying[0]}")
        if imports:
            raise digest.refuse(f"{function.__qualname__} imports {imports[0]} when it runs")
        table = function.__globals__
        if "ops" in attributes and any(_names_torch(table.get(name)) for name in names):
            raise digest.refuse(f"{function.__qualname__} calls an operator through torch.ops")
        module = str(table.get("__name__"))
        if module != _RUN_IN_MAIN and module in sys.modules:
            self._add_source(digest, module)
        for name in names:
            if name in table:
                value = table[name]
                digest.token("global", name)
                digest.add(value, name)
                if isinstance(value, types.ModuleType):
                    self._add_attributes(digest, value, attributes, set())
            elif name in _IMPURE:
                raise digest.refuse(f"{function.__qualname__} calls {name}")
            elif hasattr(builtins, name):
                digest.token("builtin", name)
            else:
                digest.token("missing", name)

    def _add_attributes(
        self, digest: ObjectDigest, module: types.ModuleType, attributes: list[str], done: set[str]
    ) -> None:
        """What code may take from a module of the user's, by the names it looks up."""
        if self._installed.name_of(module.__name__) is not None or module.__name__ in done:
            return
        done.add(module.__name__)
        for name in attributes:
            if name in vars(module):
                value = vars(module)[name]
                digest.token("attribute", module.__name__, name)
                digest.add(value, name)
                if isinstance(value, types.ModuleType):
                    self._add_attributes(digest, value, attributes, done)

    def add_class(self, digest: ObjectDigest, cls: type) -> None:
        """A class: its name, its bases, what it defines."""
        digest.token("class", cls.__module__, cls.__qualname__)
        identity = self._installed.class_from(cls)
        of_c = identity is not None and cls.__module__ in ("builtins", "torch")
        if of_c or not cls.__flags__ & (1 << 9):
            digest.token("type", identity or "")
            if identity is None:
                raise digest.refuse(f"{cls.__qualname__} is written in C")
            return
        for base in cls.__bases__:
            digest.add(base, base.__name__)
        if type(cls) is not type:
            digest.add(type(cls), "metaclass")
        digest.token("from", identity or "")
        if identity is not None:
            self.add_replaced(digest, cls.__module__)
        for name, value in vars(cls).items():
            if name in _NOT_BEHAVIOUR or isinstance(value, _SLOTS):
                continue
            digest.token("member", name)
            if identity is None or not self._is_as_installed(digest, value):
                digest.add(value, name)

    def add_replaced(self, digest: ObjectDigest, name: str) -> None:
        """Functions that were put into an installed module from elsewhere: patches, as a rule."""
        module = sys.modules.get(name)
        top = name.partition(".")[0]
        if module is None or top in sys.stdlib_module_names or name in self._scanned:
            return
        self._scanned.add(name)
        self.add_foreign(digest, top, vars(module))

    def add_foreign(self, digest: ObjectDigest, top: str, table: Mapping[str, Any]) -> None:
        """Functions in ``table`` that the distribution ``top`` did not make."""
        for label, value in list(table.items()):
            if not isinstance(value, types.FunctionType):
                continue
            home = str(value.__module__).partition(".")[0]
            made = self._installed.made(value)
            if not made or (home != top and home not in sys.stdlib_module_names):
                digest.token("replaced", label)
                digest.add(value, label)

    def _is_as_installed(self, digest: ObjectDigest, value: Any) -> bool:
        """Whether a member of an installed class came with it; then a short form is enough."""
        for part in ("__func__", "fget", "func", "__wrapped__"):
            value = getattr(value, part, value) if not isinstance(value, type) else value
        if isinstance(value, types.FunctionType):
            if not self._installed.made(value):
                return False
            if id(value) in self._checked:
                return True
            self._checked[id(value)] = value
            add_code(digest, value.__code__)
            for cell in value.__closure__ or ():  # of a decorator: what it was put around
                inner = getattr(cell, "cell_contents", None)
                if isinstance(inner, types.FunctionType) and not self._is_as_installed(
                    digest, inner
                ):
                    digest.add(inner, inner.__qualname__)
        elif isinstance(value, _DATA):
            return False
        elif isinstance(value, (list, tuple, dict, set, frozenset)):
            digest.token("data", _short(value))
        else:
            kind = type(value)
            digest.token("value", kind.__module__, kind.__qualname__)
        return True


_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def _short(value: Any) -> str:
    """Text of nested plain data, in a fixed order; of anything else its type."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_short(k)}: {_short(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_short, value)))}}}"
    if isinstance(value, _DATA):
        return repr(value)
    return f"<{type(value).__qualname__} {getattr(value, '__qualname__', '')}>"


def add_code(digest: ObjectDigest, code: types.CodeType) -> None:
    """Bytecode with its constants and names; neither file nor lines."""
    digest.token(
        "code", code.co_code, repr((code.co_argcount, code.co_kwonlyargcount, code.co_flags)),
        repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
        getattr(code, "co_exceptiontable", b""), str(len(code.co_consts)),
    )  # fmt: skip
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            add_code(digest, constant)
        else:
            digest.token(_constant(constant))


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(_constant, value))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    return f"{type(value).__name__} {value!r}"


def _names_torch(value: Any) -> bool:
    """Whether it leads to torch.ops, whose operators are implemented elsewhere, by anyone."""
    return isinstance(value, types.ModuleType) and value.__name__ == "torch"


def _references(code: types.CodeType) -> tuple[list[str], list[str], list[str]]:
    """(globals, attributes, imports) that the code and the functions in it name."""
    names: dict[str, None] = {}
    attributes: dict[str, None] = {}
    imports: dict[str, None] = {}
    waiting = [code]
    while waiting:
        for item in dis.get_instructions(waiting.pop()):
            if item.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names[item.argval] = None
            elif item.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
                attributes[item.argval] = None
            elif item.opname == "IMPORT_NAME":
                imports[item.argval] = None
            elif isinstance(item.argval, types.CodeType):
                waiting.append(item.argval)
    return list(names), list(attributes), list(imports)
