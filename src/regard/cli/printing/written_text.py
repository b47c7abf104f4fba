"""What a model wrote, read from the trace of its attention."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.types import Trace

__all__ = ["written_text"]


def written_text(trace: "Trace") -> str:
    """What a translator wrote about its source; empty for a model without cross-attention."""
    cross = trace.of("cross")
    if not cross or cross[-1].produced is None:
        return ""
    tokens = trace.tokens(cross[-1].produced)
    special = tokens.special or (False,) * len(tokens)
    pieces = [
        text for text, is_special in zip(tokens.texts, special, strict=True) if not is_special
    ]
    return "".join(pieces).replace("▁", " ").strip()
