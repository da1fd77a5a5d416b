"""Room `views`: read models for CLI, web and metrics, made from the core's published values.

May touch: nothing. Never: format for one front end.
Imports: `core`, `formats`, `model`, `errors`.
"""
