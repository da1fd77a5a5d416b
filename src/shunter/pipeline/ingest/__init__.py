"""Sub-room `pipeline.ingest`: files and streams, judged row by row, into the tables."""
