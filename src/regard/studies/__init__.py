"""Runs a watched model to learn something of it."""

from regard.studies.alignment import Sentence, aligned, diagonal, peaks

__all__ = ["Sentence", "aligned", "diagonal", "peaks"]
