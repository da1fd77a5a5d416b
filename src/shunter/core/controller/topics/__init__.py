"""Sub-room `core.controller.topics`: topics that are created, grown and deleted, and replies about them."""
