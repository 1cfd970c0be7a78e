"""Before/after cases of rewrite rules, read from the .mlir files of this folder.

A file is a list of cases. Each begins with ``// RULE name``, then the block of the function as the
printer writes it; ``// AFTER`` and the block that the rule makes of it, or ``// REFUSED`` and the
reason that the rule gives (for each op it could start at, with ``|`` between). Sizes ``n`` and
``m`` are symbols of 0 or more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuvil.ir.core import Module
from cuvil.ir.parser import parse_module
from cuvil.ir.printer import print_module

FOLDER = Path(__file__).parent
_MODULE = """"builtin.module"() ({{
  "func.func"() <{{function_type = ({inputs}) -> {outputs}, sym_name = "main"}}> ({{
{block}
  }}) {{cuvil.constraints = [], cuvil.inputs = [{names}], cuvil.outputs = [{results}], \
cuvil.symbols = [#cuvil.symbol<n, 0, inf>, #cuvil.symbol<m, 0, inf>]}} : () -> ()
}}) {{cuvil.name = "model", cuvil.stage = "captured"}} : () -> ()
"""
_TYPE = r"!cuvil\.tensor<\[[^\]]*\] x \w+>"


@dataclass(frozen=True)
class TextCase:
    """One case; ``after`` is None where the rule refuses for ``reason``."""

    place: str
    rule: str
    before: str
    after: str | None
    reason: str = ""

    @property
    def module(self) -> Module:
        """The module before."""
        return module_of(self.before)


def module_of(block: str) -> Module:
    """A module whose function has this block."""
    lines = block.strip("\n").splitlines()
    arguments = re.findall(_TYPE, lines[0])
    returned = re.findall(_TYPE, lines[-1])
    outputs = returned[0] if len(returned) == 1 else f"({', '.join(returned)})"
    return parse_module(
        _MODULE.format(
            inputs=", ".join(arguments),
            outputs=outputs,
            block="\n".join(lines),
            names=", ".join(f'"x{i}"' for i in range(len(arguments))),
            results=", ".join(f'"y{i}"' for i in range(len(returned))),
        )
    )


def block_of(module: Module) -> str:
    """The text of a module's block, as the files hold it."""
    lines = print_module(module).splitlines()
    first = next(i for i, line in enumerate(lines) if line.lstrip().startswith("^bb0"))
    last = next(i for i, line in enumerate(lines) if '"func.return"' in line)
    return "\n".join(lines[first : last + 1]) + "\n"


def read_cases() -> Iterator[TextCase]:
    """Every case of every file, in order."""
    for path in sorted(FOLDER.glob("*.mlir")):
        parts = re.split(r"^// RULE ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for number, part in enumerate(parts[1:], 1):
            rule, rest = part.split("\n", 1)
            place = f"{path.stem}:{number} {rule.strip()}"
            if "// AFTER\n" in rest:
                before, after = rest.split("// AFTER\n")
                yield TextCase(place, rule.strip(), before, after.rstrip() + "\n")
            else:
                before, reason = rest.split("// REFUSED ")
                yield TextCase(place, rule.strip(), before, None, reason.strip())
