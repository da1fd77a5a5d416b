"""The service that keeps clusters, `shunter serve FILE`: it looks, proposes, carries out, and remembers."""
