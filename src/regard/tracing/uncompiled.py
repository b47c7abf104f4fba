"""Compiled models run as they were written while they are watched, so that calls can be seen."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

_EAGER = "force_eager"


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run compiled functions as they were written, for a while.

    To ask torch for it loads its compiler, which takes longer than most of what is watched: where
    nothing was compiled before, it is asked only if something is compiled meanwhile.
    """
    if "torch._dynamo" in sys.modules:
        with torch.compiler.set_stance(_EAGER):
            yield
        return
    own: Any = torch.compile
    with ExitStack() as stack:
        asked: list[bool] = []

        def compiled(*args: Any, **settings: Any) -> Any:
            if torch.compile is compiled and not asked:
                asked.append(True)
                stack.enter_context(torch.compiler.set_stance(_EAGER))
            return own(*args, **settings)

        torch.compile = compiled
        try:
            yield
        finally:
            torch.compile = own
