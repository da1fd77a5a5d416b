"""Readers: one module for each kind of input, all handing over the columns of `validation.RAW`."""
