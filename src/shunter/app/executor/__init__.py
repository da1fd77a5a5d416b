"""Sub-room `app.executor`: an execution put together: its session, journal, orders, status, history and throttles."""
