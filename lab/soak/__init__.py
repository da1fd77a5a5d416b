"""Room `soak`: random work on real brokers for an hour, and which figures of Shunter's processes grow meanwhile.

Lives here: two yards (`served`: KRaft and the service; `controlled`: ZooKeeper mode and two controllers), what both
have in common (`yard`), `gauges` and their `growth`. May touch: processes, files, time. Never: call a series flat that
was not measured long enough.
"""
