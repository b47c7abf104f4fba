"""Results as tables: one function that makes a pandas.DataFrame, where pandas is installed."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from regard.errors import InputError


def data_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """A pandas.DataFrame with these columns.

    pandas is imported here and nowhere else: it is optional, and no other code needs it.
    """
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise InputError(
            "to_pandas() needs pandas, which is not installed; install it with: pip install pandas"
        ) from error
    return pandas.DataFrame(dict(columns))
