"""Room `formats`: znode paths and JSON, journal rows, plan files; versioned, both ways.

May touch: bytes and text. Never: sockets, files, decisions.
Imports: `model`, `errors`.
"""
