"""Tell trace files from other files by their first bytes, without reading them."""

from pathlib import Path

from regard.arguments import check_first_argument
from regard.storage.layout import LENGTH_BYTES, MAGIC

__all__ = ["is_trace_file"]


@check_first_argument
def is_trace_file(path: Path) -> bool:
    """True if the first bytes of a file are those of a saved trace."""
    try:
        with path.open("rb") as file:
            return file.read(LENGTH_BYTES + len(MAGIC))[LENGTH_BYTES:] == MAGIC
    except (OSError, ValueError):
        return False
