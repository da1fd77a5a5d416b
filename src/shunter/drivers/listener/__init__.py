"""Sub-room `drivers.listener`: requests of clients, tools and brokers: admission, login, request queue, handlers, answers."""
