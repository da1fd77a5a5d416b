"""Sub-room `cli.service`: `shunter serve`, the verbs that speak to a service, and tokens."""
