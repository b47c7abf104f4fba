"""Every public function says in one sentence what it expected in place of its first argument."""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

import regard
from project.test_surface import LISTED
from regard.arguments import accepts, check_first_argument, describe
from regard.errors import InputError, RegardError

pytestmark = pytest.mark.usefixtures("unchecked")

WRONG = {"None": None, "a number": 3, "a text": "text", "an empty list": [], "an object": object()}


def public_functions():
    """All functions of the public packages that take an argument, by name."""
    # the functions of regard.errors help others to word a message, and trust what they get
    modules = (importlib.import_module(name) for name in LISTED if name != "regard.errors")
    named = {
        (module.__name__, name): getattr(module, name)
        for module in modules
        for name in module.__all__
    }
    return {
        f"{module}.{name}": function
        for (module, name), function in named.items()
        if inspect.isfunction(function) and inspect.signature(function).parameters
    }


FUNCTIONS = public_functions()


def call_with(function, value):
    """Call a function with a first argument, and with None for all others that it requires."""
    parameters = [*inspect.signature(function).parameters.values()][1:]
    required = [each for each in parameters if each.default is each.empty]
    others = [None for each in required if each.kind is each.POSITIONAL_OR_KEYWORD]
    named = {each.name: None for each in required if each.kind is each.KEYWORD_ONLY}
    return function(value, *others, **named)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_first_argument_gets_one_sentence(name):
    function = FUNCTIONS[name]
    for value in WRONG.values():
        if name == "regard.view" or not accepts(function, value):
            with pytest.raises(RegardError, match=r"(?s)^[^\n]*(expected|should|no )[^\n]*$"):
                call_with(function, value)


@pytest.mark.parametrize("name", ["regard.diagnose", "regard.report", "regard.measures.bin_sizes"])
def test_a_list_of_wrong_things_is_refused_too(name):
    with pytest.raises(RegardError, match="expected"):
        call_with(FUNCTIONS[name], [None, 3])


def test_the_sentence_says_what_was_expected_what_came_and_what_to_do():
    with pytest.raises(InputError) as caught:
        regard.heatmap(None)
    assert str(caught.value) == (
        "heatmap expected a trace as trace, got None; make one with regard.capture, "
        "regard.watch or Trace.from_weights"
    )
    with pytest.raises(InputError, match=r"expected a trace or a list as traces, got the number 3"):
        regard.diagnose(3)
    with pytest.raises(InputError, match=r"load_trace expected a text or a path as path, got the"):
        regard.load_trace(3)
    with pytest.raises(
        InputError,
        match=r"view expected a trace, a task's result, two traces .*, got an empty list",
    ):
        regard.view([])


@check_first_argument
def weigh(
    value: Tensor | Sequence[float] | Mapping[str, int] | None, *, factor: float = 1.0
) -> tuple[object, float]:
    """A function of one argument of several types."""
    return value, factor


@pytest.mark.parametrize("value", [torch.zeros(2), [1, 2.5], (), {"a": 1}, None])
def test_values_of_an_annotated_type_pass(value):
    assert weigh(value, factor=2.0)[0] is value
    assert weigh(value=value) == (value, 1.0)


@pytest.mark.parametrize("value", ["text", 3, ["text"], [None], Path("a"), object()])
def test_values_of_another_type_do_not(value):
    with pytest.raises(InputError, match="weigh expected a tensor or a list or a mapping as value"):
        weigh(value)


def test_a_missing_argument_is_python_s_own_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'value'"):
        weigh()


def test_values_are_described_briefly():
    assert describe("x" * 99) == f"the text {'x' * 40!r}"
    assert describe(Path("a/b")) == "the path 'a/b'"
    assert describe({}) == "an empty dict"
    assert describe(torch.zeros(1)) == "a Tensor"
    assert describe([1]) == "a list"
