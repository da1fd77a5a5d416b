"""Sub-room `core.controller.moves`: reassignments: accepted, begun, advanced, paused, stopped, adopted."""
