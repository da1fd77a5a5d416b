"""Readers: one module for each kind of input. All return the columns of `validation.RAW`."""
