"""Simulated brokers: registration, logs, replication, ISR changes, and an Apache-like controller in one of them."""
