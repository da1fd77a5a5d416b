"""Sub-room `drivers.brokers`: requests to brokers: channels, request bodies, backlogs, connections, releases."""
