"""Room `faults`: one fault in the middle of one piece of work, on real clusters under load, cell after cell of a table.

May touch: processes, files, time.

Never: call a cell passed of which not every acknowledged record was read back.
"""
