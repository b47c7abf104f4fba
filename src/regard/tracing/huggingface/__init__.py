"""The registries of transformers while a model is watched: masks that stay descriptions."""
