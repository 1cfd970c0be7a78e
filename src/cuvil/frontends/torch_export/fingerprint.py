"""Knowing a PyTorch model again without exporting it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from cuvil.frontends.alone import ALONE
from cuvil.frontends.code_digest import LoadedCode
from cuvil.frontends.object_digest import ObjectDigest, Unknown

_WORDS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.parameter.Buffer)
_OWN_OPERATORS = ("aten", "prims", "prim")
_GLOBAL_HOOKS = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks",
    "_global_module_registration_hooks", "_global_parameter_registration_hooks",
)  # fmt: skip
# Where transformers looks up by name what a configuration asks for.
_REGISTRIES = (
    ("transformers.modeling_utils", "ALL_ATTENTION_FUNCTIONS"),
    ("transformers.masking_utils", "ALL_MASK_ATTENTION_FUNCTIONS"),
)


@ALONE.held()
def fingerprint(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *rest: Any) -> str:
    """A digest of all that a capture of this model with these examples depends on.

    Weights, attributes and the code that was loaded enter with all they hold; example tensors
    with dtype, shape and strides only; ``rest`` (plain data) as it is. Raises Unknown, saying
    why, where something can't be told: then only a capture can tell.
    """
    if isinstance(model, ExportedProgram):
        raise Unknown("an exported program is captured as it is")
    code = LoadedCode()
    digest = ObjectDigest(code, _full)
    digest.token("torch", torch.__version__, sys.version)
    _add_settings(digest)
    for name in ("torch", "torch.nn.functional"):
        code.add_replaced(digest, name)
    code.add_foreign(digest, "torch", vars(torch.Tensor))
    if isinstance(model, (str, Path)):
        digest.token("file", _file_digest(Path(model)))
    else:
        digest.add(model, type(model).__name__)
    digest.add(rest, "request")
    examples = ObjectDigest(code, _outline)
    examples.add(tuple(args), "example_inputs")
    examples.add(dict(kwargs), "example_inputs")
    digest.token(examples.hexdigest())
    return digest.hexdigest()


def _file_digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError as error:
        raise Unknown(f"{path} can't be read: {error}") from None


def _add_settings(digest: ObjectDigest) -> None:
    """The settings of this process that decide what a trace holds."""
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        raise Unknown("a mode that changes what torch functions do is active")
    hooks = [getattr(torch.nn.modules.module, name, None) for name in _GLOBAL_HOOKS]
    if any(hooks):
        raise Unknown("hooks on all modules are registered")
    digest.token(
        repr(torch.get_default_dtype()), repr(torch.get_default_device()),
        repr(torch.is_autocast_enabled("cpu")), repr(torch.get_autocast_dtype("cpu")),
    )  # fmt: skip


def _full(digest: ObjectDigest, value: Any) -> bool:
    """Values of PyTorch's own types, tensors with their data."""
    if isinstance(value, torch.Tensor):
        _add_tensor(digest, value)
        return True
    if isinstance(value, torch.nn.Module):
        _check_module(digest, value)
        return False
    if _has_attention(value):
        _add_attention(digest, value)
        return False
    return _add_word(digest, value)


def _outline(digest: ObjectDigest, value: Any) -> bool:
    """The same for examples, whose data does not matter."""
    if isinstance(value, torch.Tensor):
        _add_shape(digest, value)
        return True
    if isinstance(value, np.ndarray):
        digest.token("array", repr(value.dtype), repr(value.shape), repr(value.strides))
        return True
    return _add_word(digest, value)


def _add_word(digest: ObjectDigest, value: Any) -> bool:
    if isinstance(value, _WORDS):
        digest.token("torch", repr(value))
    elif isinstance(value, torch.Size):
        digest.token("size", repr(tuple(value)))
    elif isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        name = str(value)
        if name.partition(".")[0].partition("::")[0] not in _OWN_OPERATORS:
            raise digest.refuse(f"the operator {name} is not PyTorch's own")
        digest.token("operator", name)
    else:
        return False
    return True


def _add_shape(digest: ObjectDigest, tensor: torch.Tensor) -> None:
    if type(tensor) not in _TENSORS or tensor.layout is not torch.strided or tensor.is_quantized:
        raise digest.refuse(f"a {tensor.layout} {type(tensor).__name__}")
    digest.token(
        type(tensor).__name__, repr(tensor.dtype), repr(tuple(tensor.shape)),
        repr(tensor.stride()), repr(tensor.device), repr(tensor.requires_grad),
        repr((tensor.is_conj(), tensor.is_neg())),
    )  # fmt: skip


def _add_tensor(digest: ObjectDigest, tensor: torch.Tensor) -> None:
    _add_shape(digest, tensor)
    if tensor.device.type != "cpu":
        raise digest.refuse(f"a tensor on {tensor.device}")
    if tensor._backward_hooks:
        raise digest.refuse("a tensor with hooks")
    storage = tensor.untyped_storage().data_ptr()
    digest.same(storage, "storage")
    digest.token(data_digest(tensor))
    digest.add_items("attributes", vars(tensor).items())


def data_digest(tensor: torch.Tensor) -> bytes:
    """A digest of the elements of a dense tensor, of any type."""
    data = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return hashlib.sha256(data.view(torch.uint8).numpy()).digest()


def _check_module(digest: ObjectDigest, module: torch.nn.Module) -> None:
    if isinstance(module, (torch.jit.ScriptModule, torch.fx.GraphModule)):
        raise digest.refuse(f"a {type(module).__name__} holds a program of its own")
    state = vars(module)
    if "forward" in state:
        raise digest.refuse("forward was replaced on this module")
    hooked = [name for name, value in state.items() if name.endswith("hooks") and value]
    if hooked:
        raise digest.refuse(f"it has {hooked[0].strip('_')}")


def _has_attention(value: Any) -> bool:
    return any(c.__name__ in ("PreTrainedConfig", "PretrainedConfig") for c in type(value).__mro__)


def _add_attention(digest: ObjectDigest, config: Any) -> None:
    name = getattr(config, "_attn_implementation", None)
    for module, registry in _REGISTRIES:
        table = getattr(sys.modules.get(module), registry, None)
        if table is not None and isinstance(name, str) and name in table:
            digest.add(table[name], "attention")
