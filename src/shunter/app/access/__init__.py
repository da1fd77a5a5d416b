"""Sub-room `app.access`: tokens, sessions, private files, and the logs of who asked for what."""
