"""Read-only facts about a graph: liveness, values of shapes, ranges, cost."""
