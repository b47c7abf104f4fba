"""For mkdocs: examples in docstrings are shown as code, not read as text with links in it."""

import re
from typing import Any

from griffe import Docstring, Extension, Object

EXAMPLE = re.compile(r"(?:^|\n\n)(>>> .*?)(?=\n\n|\Z)", flags=re.DOTALL)


class DoctestFences(Extension):
    """Puts a fence around each run of lines that begins with `>>>`."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        found: Docstring | None = obj.docstring
        if found is not None:
            found.value = EXAMPLE.sub(r"\n\n```pycon\n\1\n```", found.value)
