"""A model's heads over a whole corpus: streamed, shared between processes, and gone on with."""
