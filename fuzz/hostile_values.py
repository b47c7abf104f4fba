"""Values that a reader of JSON or TOML does not expect, drawn by hypothesis and listed by hand."""

from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

__all__ = ["DEEP", "EXTREMES", "HOSTILE_TEXTS", "HUGE", "draw_values"]

DEEP = 100_000  # levels of nesting; Python's own parsers give up at about a thousand

# Stands for a whole number of 5,000 digits, which Python refuses to read or write as text.
HUGE = "$huge$"

HOSTILE_TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "\x1b[31m", "‮", "../../etc/passwd", "/", ".", "~", "%s%n",
    "{0.__class__}", "NaN", "null", "true", "1e999", "0x10", "＋１", "x" * 100_000, "我" * 30_000,
    "a\nb", "a\r\nb", "a\tb", "'\"\\", "=1+1", "<script>", "float64", "cuda:9", "relu", "softmax",
)  # fmt: skip
EXTREMES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, -(2**31) - 1, 2**53 + 1, 2**63, -(2**63) - 1, 2**64,
    10**30, HUGE, 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf"),
    [], {}, [[]], [None], [1, "a"], {"": None}, {"a": {}}, [0] * 1000, "0", "1", "abc",
    *HOSTILE_TEXTS,
)  # fmt: skip

_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from(EXTREMES),
)
VALUES = st.recursive(
    _LEAVES,
    lambda children: st.one_of(
        st.lists(children, max_size=4),
        st.dictionaries(st.text(max_size=10), children, max_size=4),
    ),
    max_leaves=12,
)


def draw_values(number: int, count: int) -> list[Any]:
    """`count` values that hypothesis draws from a seed, always the same ones."""
    values: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(VALUES)
    def collect(value: Any) -> None:
        values.append(value)

    collect()
    return values
