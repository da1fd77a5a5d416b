"""Sub-room `core.executor.foresight`: whether a move can end, what it lacks, and the way out."""
