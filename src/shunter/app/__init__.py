"""Room `app`: composition roots and configuration; joins siblings that may not import each other.

May touch: the process, signals, settings files. Never: rules of the domain.
Imports: everything below.
"""
