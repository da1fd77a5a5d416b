"""Room `simulation`: seeded worlds of brokers, network, faults and checkers around the real controller or executor.

Lives here: everything that `./simulate` and the tests run, on virtual time, in one process and one thread.
May touch: one PRNG, virtual time, every room below. Never: real time, sockets, files; be imported by the product.
Imports: `drivers`, `core`, `wire`, `formats`, `model`, `errors`.
"""
