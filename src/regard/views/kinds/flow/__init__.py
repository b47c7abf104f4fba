"""Lines from query tokens to key tokens, as thick as their weights."""

from regard.views.kind import EXACT_TOKENS, ViewKind

KIND = ViewKind("flow", order=4, most_tokens=EXACT_TOKENS)
