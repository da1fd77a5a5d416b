"""Sub-room `app.pipeline`: the pipeline's stages put together, and the collection of what they read."""
