"""The Transformer, one implementation for encoders, decoders, both together, and pictures."""
