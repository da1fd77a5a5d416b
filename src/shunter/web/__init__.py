"""Room `web`: what people see in a browser. Empty of function until the web's turn comes.

May touch: HTTP. Never: reach into core or drivers.
Imports: `app`, `views`.
"""
