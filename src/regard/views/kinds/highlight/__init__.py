"""The text itself, each word shaded by the attention that it received."""

from regard.views.kind import EXACT_TOKENS, ViewKind

KIND = ViewKind("highlight", order=3, most_tokens=EXACT_TOKENS)
