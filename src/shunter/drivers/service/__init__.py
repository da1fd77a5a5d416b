"""Sub-room `drivers.service`: what the service needs: its store, its socket, notifications, other servers' APIs."""
