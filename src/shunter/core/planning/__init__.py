"""Placement, schedule and ETA of one cluster, in numpy; no Spark, no clock, no randomness of its own.

`plan(cluster, request)` is the entry: a `ClusterLoad` and a `PlanRequest` in, a `Plan` out. The same arguments always
give the same plan, and planning a plan's own result changes nothing. Nothing here imports scipy but `bounds.joint_bound`.
"""
