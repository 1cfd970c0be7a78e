"""Rules, the rewriter, and the trace of what fired and what refused."""
