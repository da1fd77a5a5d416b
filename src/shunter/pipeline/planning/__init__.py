"""Sub-room `pipeline.planning`: plans, schedules and what-if answers for many clusters side by side."""
