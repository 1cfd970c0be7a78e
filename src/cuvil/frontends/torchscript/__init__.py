"""TorchScript: a module whose forward replays a ScriptModule's graph, for torch.export to trace."""

from cuvil.frontends.torchscript.load import load_script
from cuvil.frontends.torchscript.replay import Replay

__all__ = ["Replay", "load_script"]
