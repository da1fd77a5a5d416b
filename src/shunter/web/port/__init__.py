"""Sub-room `web.port`: connections: accepted in turns, bounded, judged before they are read."""
