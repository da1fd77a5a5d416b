"""Sub-room `formats.security`: certificates, key stores, logins and tokens."""
