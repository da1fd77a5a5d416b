"""Sub-room `app.planning`: plans from files and from live clusters."""
