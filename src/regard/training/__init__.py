"""Corpora, the loop and its events."""
