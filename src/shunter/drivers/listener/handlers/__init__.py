"""Answers to clients, tools and brokers: one module for each family of APIs; `dispatch` has the table of all APIs.

A handler asks the view or the core, and puts the answer into the form of its API. It decides nothing.
"""
