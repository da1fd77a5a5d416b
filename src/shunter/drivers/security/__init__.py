"""Sub-room `drivers.security`: TLS contexts, and tokens that are fetched, shared and validated."""
