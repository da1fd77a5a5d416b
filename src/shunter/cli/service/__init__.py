"""Sub-room `cli.service`: `shunter serve`, its orders, and tokens."""
