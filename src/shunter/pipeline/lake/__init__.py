"""Sub-room `pipeline.lake`: the tables, their schemas, and reading them without Spark."""
