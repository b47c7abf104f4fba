"""Every public function refuses a first argument of another kind, in one sentence."""

import importlib
import inspect
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import accepts, check_first_argument, check_type, describe
from regard.errors import InputError, RegardError

PACKAGES = (
    "", "attention", "attribution", "diagnosis", "kernels.observe", "loading", "masks", "measures",
    "models", "storage", "studies", "tracing", "types", "views",
)  # fmt: skip
WRONG = (None, 3, "text", [])


def public_functions():
    """The functions with a parameter in the `__all__` of each package, once each."""
    modules = [importlib.import_module(f"regard.{name}".rstrip(".")) for name in PACKAGES]
    offered = [getattr(module, name) for module in modules for name in module.__all__]
    functions = {*filter(inspect.isfunction, offered)}
    taking = [function for function in functions if inspect.signature(function).parameters]
    return sorted(taking, key=lambda function: (function.__module__, function.__name__))


def call(function, first):
    """Call a function with a first argument, and None for all others that it requires."""
    _, *others = inspect.signature(function).parameters.values()
    required = [other for other in others if other.default is other.empty]
    values = [None for other in required if other.kind is other.POSITIONAL_OR_KEYWORD]
    named = {other.name: None for other in required if other.kind is other.KEYWORD_ONLY}
    result = function(first, *values, **named)
    if hasattr(result, "__enter__"):  # a block, as of watch, begins when it is entered
        result.__enter__()


def test_the_public_functions_are_found():
    assert {"heatmap", "capture", "rollout", "load_trace"} <= {
        f.__name__ for f in public_functions()
    }


def wrong_calls():
    """Each public function with each value that it does not take."""
    for function in public_functions():
        says_nothing = accepts(function, object())  # such a function has a check of its own
        for value in WRONG:
            if says_nothing or not accepts(function, value):
                name = f"{function.__module__}.{function.__name__}({value!r})"
                yield pytest.param(function, value, id=name)


@pytest.mark.parametrize(("function", "value"), [*wrong_calls()])
def test_a_public_function_refuses_what_it_cannot_take(unchecked, function, value):
    with pytest.raises(RegardError):
        call(function, value)


@check_first_argument
def spell(text: str | Path, mode: Literal["a", "b"] = "a") -> Any:
    return text, mode


def test_what_fits_is_passed_on():
    assert spell("爱", mode="b") == ("爱", "b")
    assert spell(text=Path("a")) == (Path("a"), "a")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "spell expected a text or a path as text, got None; pass a str"),
        (3, "got the number 3"),
        ([], "got an empty list"),
        (torch.zeros(3), "got a Tensor"),
    ],
)
def test_the_sentence_says_what_was_expected_what_came_and_what_to_do(value, message):
    with pytest.raises(InputError, match=message):
        spell(value)


def test_a_missing_argument_is_python_s_own_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        spell()


def test_a_list_is_checked_item_by_item():
    @check_first_argument
    def join(texts: list[str]) -> str:
        return "".join(texts)

    assert join(["我", "爱"]) == "我爱"
    with pytest.raises(InputError, match="join expected a list"):
        join([3])


def test_a_shape_is_not_looked_at_here():
    @check_first_argument
    def total(numbers: Float[Tensor, "row column"]) -> float:
        return float(numbers.sum())

    with pytest.raises(
        InputError, match=r"total expected a tensor as numbers, got .* torch.tensor"
    ):
        total([1.0])


def test_a_whole_number_is_a_number():
    check_type(3, (int, float), "window", "left")
    with pytest.raises(InputError, match="window expected a number as left, got the text '3'"):
        check_type("3", int, "window", "left")


def test_long_texts_are_cut():
    assert describe("x" * 1000) == f"the text {'x' * 40!r}"
