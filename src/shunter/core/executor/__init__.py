"""The executor's state machine: the same moves driven from outside, through the Admin API and a journal."""
