"""Room `drivers`: carries out what the core decided; what comes back is a new event. asyncio.

Lives here: broker channels, the RPC server, ZooKeeper, the Admin API, the journal, the clock.
May touch: sockets, files, time. Never: decide, hold domain state.
Imports: `views`, `core`, `wire`, `formats`, `model`, `errors`.
"""
