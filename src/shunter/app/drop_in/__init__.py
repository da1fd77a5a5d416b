"""Drop-ins for Apache's command-line tools: `kafka-reassign-partitions`, and `kafka-topics --describe`."""
