"""Sub-room `model.security`: listeners, principals, permissions."""
