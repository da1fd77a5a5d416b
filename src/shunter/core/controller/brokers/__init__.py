"""Sub-room `core.controller.brokers`: brokers that come and go, their requests and answers, and elections."""
