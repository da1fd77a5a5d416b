"""Sub-room `formats.znodes`: paths of znodes and their JSON."""
