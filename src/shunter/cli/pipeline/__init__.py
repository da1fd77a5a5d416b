"""Sub-room `cli.pipeline`: `shunter pipeline` and its commands."""
