"""Sub-room `pipeline.load`: the load model and what it is made of."""
