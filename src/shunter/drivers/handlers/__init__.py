"""Answers to clients, tools and brokers, one module for each family of APIs; `dispatch` knows them all.

A handler asks the view or the core and puts what it hears into the form of its API. It decides nothing.
"""
