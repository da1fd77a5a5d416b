"""Sub-room `core.executor.estimates`: bytes really copied, and how long the rest takes."""
