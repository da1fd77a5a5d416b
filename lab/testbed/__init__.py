"""Room `testbed`: real parts on this machine for demo and tests: ZooKeeper, Kafka 2.8 to 4.1, Spark.

Lives here: `cluster` (ZooKeeper mode), `kraft`, `spark`, `controller` (Shunter's, as a process), single servers
(`zookeeper`, `kafka`), Apache's `tools`, Apache's own tests with Shunter's controller (`apache_tests`), `artifacts`
(the cache of jars), `process` (child processes that never outlive their parent). May touch: processes, ports, a cache
folder. Never: be imported by the product. Imports: `drivers`, `formats`, `wire`, `model`, `errors`.
"""
