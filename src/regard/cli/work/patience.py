"""A line on stderr that says what is being done, once it takes more than a moment."""

import sys
from dataclasses import dataclass, field
from time import monotonic

import click

PATIENCE = 2.0  # seconds before progress is shown


@dataclass
class Patience:
    """Says on stderr what is being done; the line is written over where there is a terminal."""

    quiet: bool = False
    _start: float = field(default_factory=lambda: monotonic())
    _said: bool = False

    def say(self, line: str) -> None:
        """Say it, unless so little time has passed that nobody wonders."""
        if self.quiet or monotonic() - self._start < PATIENCE or not sys.stderr.isatty():
            return
        self._said = True
        click.echo(f"\r{line}\x1b[K", err=True, nl=False)

    def clear(self) -> None:
        """Take the line back."""
        if self._said:
            click.echo("\r\x1b[K", err=True, nl=False)
