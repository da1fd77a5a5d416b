"""Sub-room `pipeline.reports`: accounts of moves, quality, growth of disks, usage, anomalies, the report."""
