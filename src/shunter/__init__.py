"""Shunter moves the replicas of Apache Kafka partitions between brokers: stoppable, reversible, nothing lost."""

__version__ = "0.1.0"
