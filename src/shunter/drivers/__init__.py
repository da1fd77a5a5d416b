"""Room `drivers`: carries out the core's decisions, and turns outcomes into new events. asyncio.

Lives here: broker channels, the RPC server, ZooKeeper, the Admin API, the journal, the clock.
May touch: sockets, files, time. Never: decide, hold domain state.
Imports: `views`, `core`, `wire`, `formats`, `model`, `errors`.
"""
