"""Room `pipeline`: samples and snapshots to load model, plan, schedule and account, on Spark.

May touch: Spark. Never: `collect()` but for the small last result; a Python UDF where a native function serves.
Imports: `views`, `core.planning`, `formats`, `model`, `errors`, pyspark.
"""
