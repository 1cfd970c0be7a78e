"""``torch.compile(model, backend="cuvil")``, and what became of each graph."""

from cuvil.integrations.dynamo.backend import backend, clear_report, report
from cuvil.integrations.dynamo.history import GraphRecord, Report

__all__ = ["GraphRecord", "Report", "backend", "clear_report", "report"]
