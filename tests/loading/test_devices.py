import pytest
import torch

from regard.errors import InputError
from regard.loading import find_device


@pytest.mark.parametrize(("there", "found"), [(True, "cuda"), (False, "cpu")])
def test_without_a_name_it_is_cuda_if_there_is_one(monkeypatch, there, found):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert find_device(None) == torch.device(found)


def test_a_device_is_found_by_its_name():
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["abacus", "cuda:99", "cpu:x", "", "vulkan"])
def test_a_device_that_is_not_here_is_refused(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(InputError, match="here; there is cpu, cuda:0, cuda:1, mps"):
        find_device(name)


def test_a_device_that_holds_nothing_is_refused():
    with pytest.raises(InputError, match="'meta' holds no numbers"):
        find_device("meta")
