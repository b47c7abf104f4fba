"""The options of the commands that write."""

from collections.abc import Callable
from functools import reduce

import click

from regard.cli import options

_OPTIONS = (
    options.model,
    options.file("--file", "Take the lines of this file, UTF-8; - is stdin."),
    click.option(
        "--int8", is_flag=True, help="Keep large matrices in eight bits: lighter, faster."
    ),
    click.option(
        "--beam",
        metavar="N",
        type=click.IntRange(1, 512),
        help="Hypotheses side by side. [model's own]",
    ),
    click.option(
        "--best", metavar="N", type=click.IntRange(1, 512), help="Print so many for each text. [1]"
    ),
    click.option(
        "--max-length", metavar="N", type=click.IntRange(1), help="Tokens at most. [model's own]"
    ),
    click.option("--sample", is_flag=True, help="Draw tokens instead of taking the likeliest."),
    click.option(
        "--temperature",
        metavar="X",
        type=float,
        help="Below 1 bolder, above 1 wilder; with --sample.",
    ),
    click.option(
        "--top-k", metavar="N", type=click.IntRange(0), help="Draw from the k likeliest. [50]"
    ),
    click.option(
        "--top-p", metavar="X", type=float, help="Draw from the fewest that hold this mass."
    ),
    click.option(
        "--min-p",
        metavar="X",
        type=float,
        help="Draw from those so many times as likely as the best.",
    ),
    click.option("--repetition-penalty", metavar="X", type=float, help="Above 1, old tokens lose."),
)
_SHARED = (
    options.out,
    options.language,
    options.as_json,
    options.seed,
    options.device,
    options.quiet,
)


def writing(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that writes, in the order of its help."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)


def shared(command: Callable[..., None]) -> Callable[..., None]:
    """Those that it shares with other commands, which come last."""
    return reduce(lambda made, option: option(made), reversed(_SHARED), command)
