"""Masks read back from what a model computes: dense tensors, rules on indices, lazy masks."""
