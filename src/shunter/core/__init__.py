"""Room `core`: decides, and never touches the outside. Events in, an ordered `Ready` out.

Lives here: `reassignment` (steps, stop, rollback, drop set), `controller` and `executor` (state machines),
`planning` (placement, schedule and its expected duration: numpy, no Spark), `keeper` (conditions of a cluster, and
plans that would mend them), and single rules.
May touch: its own state. Never: a clock, randomness, a log, await, bytes, a znode path.
Imports: `model`, `errors`. Sets are never iterated unsorted.
"""
