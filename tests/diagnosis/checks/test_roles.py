import torch

from regard.diagnosis import CHECKS, diagnose
from regard.types import Trace

WORDS = list("abcdefghijk")


def told(role, weights, words=WORDS):
    return diagnose(Trace.from_weights(weights, words), checks=[CHECKS[f"role-{role}"]])


def test_the_clearest_head_of_a_role_is_told_and_the_others_are_counted():
    ahead = torch.eye(11)[[*range(1, 11), 10]]
    weights = torch.stack([ahead, 0.75 * ahead + 0.25 * torch.eye(11), torch.eye(11)])
    (found,) = told("next", weights)
    assert (found.head, found.numbers["heads"], found.numbers["others"]) == (0, 2, [["weights", 1]])


def test_a_head_without_a_role_is_not_told():
    assert told("previous", torch.full((1, 11, 11), 1 / 11)) == []


def test_a_head_that_copies_what_followed_is_told():
    words = list("abcabcabcab")
    weights = torch.eye(11)
    for row in range(3, 11):
        weights[row] = torch.eye(11)[row - 2]
    (found,) = told("induction", weights[None], words)
    assert found.value > 0.4
