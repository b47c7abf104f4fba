"""What the transcripts of all models of speech have in common: text, timed words, windows."""

from typing import NamedTuple

from regard.types import TimedWord, Tokens, Trace

__all__ = ["Transcript", "TranscriptWindow", "name_frames"]


class TranscriptWindow(NamedTuple):
    """A part of a sound that was heard in one run, from start to stop in seconds."""

    start: float
    stop: float
    trace: Trace | None


class Transcript(NamedTuple):
    """A text, its log-probability per token, its words, and the windows it was heard in."""

    text: str
    score: float
    words: tuple[TimedWord, ...]
    windows: tuple[TranscriptWindow, ...]


def name_frames(count: int, seconds: float, start: float = 0.0) -> Tokens:
    """The frames of a sound, each of which lasts some seconds, called by the time they begin."""
    return Tokens(tuple(f"{start + number * seconds:.2f} s" for number in range(count)))
