"""All rules by operator, one table a family: importing a family here is all it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from cuvil.frontends.torch_export import (  # noqa: F401  (all are found by their names)
    table_activation,
    table_arithmetic,
    table_bits,
    table_complex,
    table_contraction,
    table_create,
    table_ctc,
    table_fft,
    table_functions,
    table_grid,
    table_grouped,
    table_index,
    table_linalg,
    table_loss,
    table_norm,
    table_order,
    table_pool,
    table_quantized,
    table_recurrent,
    table_reduce,
    table_resize,
    table_sampling,
    table_select,
    table_sets,
    table_shape,
    table_slice,
    table_special,
    table_strided,
    table_svd,
    table_write,
)
from cuvil.frontends.torch_export.call import Rule
from cuvil.frontends.torch_export.pairs import is_complex
from cuvil.frontends.torch_export.widened import widened


def _merge(families: Iterable[ModuleType]) -> Mapping[str, Rule]:
    table: dict[str, Rule] = {}
    for family in families:
        for name, rule in family.RULES.items():
            if name in table:
                raise ValueError(f"two rules for {name}")
            table[name] = widened(name, rule)
    return MappingProxyType(table)


RULES: Mapping[str, Rule] = _merge(
    value
    for name, value in globals().items()
    if name.startswith("table_") and value is not table_complex
)
COMPLEX_RULES: Mapping[str, Rule] = MappingProxyType(table_complex.complex_rules(RULES))


def rule_for(key: str, metas: Any) -> Rule | None:
    """The rule of an operator, by whether any of its arguments or results (as torch's fake
    tensors) is complex; None where there is none."""
    return (COMPLEX_RULES if is_complex(metas) else RULES).get(key)


# Checks that torch has made already while tracing, and marks without a meaning here.
SILENT = frozenset(
    {"_assert_tensor_metadata", "_assert_async", "_functional_assert_async", "_enter_autocast",
     "_exit_autocast", "_set_grad_enabled"}
)  # fmt: skip
