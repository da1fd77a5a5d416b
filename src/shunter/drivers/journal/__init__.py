"""Sub-room `drivers.journal`: the executor's journals, its lease and claim, orders of other shells, and its loop."""
