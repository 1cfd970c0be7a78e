"""The graph: core, types, builder, verifier, clone, MLIR text out and in."""
