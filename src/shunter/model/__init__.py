"""Room `model`: the frozen values that every other room speaks in.

Lives here: topics and partitions, assignments, leaders and ISRs, brokers, reassignments, records, settings.
May touch: its arguments. Never: mutate, read a clock, know a znode path or a byte layout.
Imports: `errors` alone.
"""
