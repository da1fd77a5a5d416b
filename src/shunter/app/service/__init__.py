"""The service of clusters, `shunter serve FILE`: it looks, proposes, carries out, and remembers."""
