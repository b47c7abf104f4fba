"""Matcher: how well a relation, or another short text, answers a question."""

from regard.models.matching.config import MatcherConfig
from regard.models.matching.model import EncodedTexts, Matcher

__all__ = ["EncodedTexts", "Matcher", "MatcherConfig"]
