"""The public surface is sorted, complete, documented, and costs nothing until it is used."""

import importlib
import inspect
import subprocess
import sys

import pytest

import regard

LISTED = [
    "regard",
    "regard.attention",
    "regard.attribution",
    "regard.diagnosis",
    "regard.errors",
    "regard.kernels.observe",
    "regard.loading",
    "regard.masks",
    "regard.measures",
    "regard.models",
    "regard.storage",
    "regard.studies",
    "regard.tasks",
    "regard.tracing",
    "regard.types",
]


@pytest.mark.parametrize("name", LISTED)
def test_the_list_of_names_is_sorted_and_complete(name):
    module = importlib.import_module(name)
    assert module.__all__ == sorted({*module.__all__})
    assert all(hasattr(module, each) for each in module.__all__)
    public = {each for each in vars(module) if not each.startswith("_")}
    made_here = {
        each
        for each in public
        if getattr(getattr(module, each), "__module__", "").startswith("regard.")
    }
    assert made_here <= {*module.__all__}


@pytest.mark.parametrize("name", LISTED)
def test_every_public_name_is_documented(name):
    module = importlib.import_module(name)
    for each in module.__all__:
        thing = getattr(module, each)
        if inspect.isclass(thing) or callable(thing) or inspect.ismodule(thing):
            assert (thing.__doc__ or "").strip(), each


def test_dir_shows_the_surface():
    assert dir(regard) == regard.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'attned'"):
        regard.attned  # noqa: B018


def loaded_after(line: str) -> set[str]:
    code = f"import sys; {line}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in ran.stdout.split()}


def test_importing_regard_loads_nothing_but_itself():
    assert not loaded_after("import regard") & {"torch", "numpy", "click", "rich", "jaxtyping"}


def test_attending_loads_nothing_optional():
    loaded = loaded_after("import regard; regard.attend")
    assert not loaded & {"rich", "click", "transformers", "matplotlib", "beartype"}
