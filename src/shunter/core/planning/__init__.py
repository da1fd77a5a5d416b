"""Placement and schedule of one cluster, with the expected duration, in numpy; no Spark, clock or randomness of its own.

`plan(cluster, request)` is the entry: a `ClusterLoad` and a `PlanRequest` in, a `Plan` out. The same arguments always
give the same plan, and planning a plan's own result changes nothing. Nothing here imports scipy but `bounds.joint_bound` and
`processors.fit_processors`.
"""
