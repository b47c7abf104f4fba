"""Hostile campaigns against regard: `make fuzz`, or `python -m fuzz` for a part of them."""
