"""The command `regard`: each subcommand parses, calls the library, prints."""

from regard.cli.program import main

__all__ = ["main"]
