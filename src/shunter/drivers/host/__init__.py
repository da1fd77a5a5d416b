"""Sub-room `drivers.host`: this process and its machine: files, clocks, limits, HTTP, tasks, the service manager."""
