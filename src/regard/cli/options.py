"""The options that several commands share."""

import os

import click

from regard.cli.language import LANGUAGES


def _language() -> str:
    return "zh" if os.environ.get("LANG", "").startswith("zh") else "en"


language = click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    envvar="REGARD_LANG",
    default=_language,
    show_default="REGARD_LANG, else zh if LANG starts with zh, else en",
    help="Language of the output.",
)

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, the same in every language."
)
