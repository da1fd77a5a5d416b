"""Apache's command-line tools, stood in for: `kafka-reassign-partitions`, and `kafka-topics --describe`."""
