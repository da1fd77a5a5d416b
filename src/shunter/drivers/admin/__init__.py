"""The Admin API over kafka-python: the client, its answers, settings, reassignments, log dirs, and a cluster's inventory."""
