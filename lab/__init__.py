"""The lab: what proves and shows the product, beside it and not in its wheel.

Lives here: `simulation` (seeded worlds with checkers), `testbed` (real ZooKeeper, Kafka and Spark on this machine), `demo`
(the main job on real parts) and `benchmarks`. It imports the product, and the product never imports it.
"""
