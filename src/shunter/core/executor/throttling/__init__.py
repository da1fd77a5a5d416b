"""Sub-room `core.executor.throttling`: replication throttles: set, adapted, owed, given back."""
