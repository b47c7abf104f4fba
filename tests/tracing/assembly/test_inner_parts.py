"""Rows of inner batches belong to the trace of their own example, as if it had run alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing.assembly.inner_parts import assign_parts
from regard.tracing.dataflow.example_facts import ModelCall
from tracing.several_pictures import PATCHES, SIDE, Attends, Looker, OneByOne, Packed, Reader, text

pytestmark = pytest.mark.usefixtures("unchecked")

LENGTH = 17


def watch(model, *inputs):
    with torch.no_grad(), regard.watch(model) as seen:
        model(*inputs)
    return seen


def assert_same_weights(trace, alone):
    assert [each.site for each in trace] == [each.site for each in alone]
    for one, other in zip(trace, alone, strict=True):
        assert one.kind == other.kind
        torch.testing.assert_close(one.weights(), other.weights())


@pytest.mark.parametrize("counts", [(3, 1), (1, 3), (2, 2), (2, 0), (0, 1), (1, 0, 2), (3, 2, 2)])
@pytest.mark.parametrize("write", ["masked_scatter", "index"])
@pytest.mark.parametrize("looker", [Looker, OneByOne, Packed])
def test_each_text_has_its_own_pictures(looker, write, counts):
    model = Reader(looker, write)
    texts = [text(count, LENGTH) for count in counts]
    pictures = [torch.randn(count, 3, SIDE, SIDE) for count in counts]
    seen = watch(model, torch.cat(texts), torch.cat(pictures))
    assert len(seen) == len(counts)
    for trace, ids, pixels in zip(seen, texts, pictures, strict=True):
        if len(pixels):
            assert_same_weights(trace, watch(model, ids, pixels)[0])
        else:
            assert [each.site for each in trace] == ["attention"]


@pytest.mark.parametrize("write", ["masked_scatter", "index", "nothing"])
def test_pictures_that_are_padding_belong_to_nobody(write):
    model, pixels = Reader(write=write), torch.randn(2, 3, 3, SIDE, SIDE)
    pixels[1, 1:] = 0
    texts = [text(3, LENGTH), text(1, LENGTH)]
    seen = watch(model, torch.cat(texts), pixels)
    assert_same_weights(seen[0], watch(model, texts[0], pixels[:1])[0])
    assert_same_weights(seen[1], watch(model, texts[1], pixels[1:])[0])


def test_the_pictures_that_come_first_are_not_the_examples():
    class PicturesFirst(Reader):
        def forward(self, pixel_values, input_ids):
            return super().forward(input_ids, pixel_values)

    texts = torch.cat([text(2, LENGTH), text(2, LENGTH)])
    seen = watch(PicturesFirst(), torch.randn(4, 3, SIDE, SIDE), texts)
    assert [len(trace) for trace in seen] == [3, 3]


def test_a_part_of_the_model_that_runs_alone_has_a_trace_for_each_picture():
    model = Reader()
    with torch.no_grad(), regard.watch(model) as seen:
        model.looker(torch.randn(4, 3, SIDE, SIDE))
    assert [trace.maps[0].shape for trace in seen] == [(1, PATCHES, PATCHES)] * 4


class Loop(nn.Module):
    """Attends to one example of the batch after another."""

    def __init__(self):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(31, 6), Attends()

    def forward(self, input_ids):
        return torch.cat([self.attention(each[None]) for each in self.embedding(input_ids)])


def test_each_turn_of_a_loop_over_examples_belongs_to_its_example():
    model, ids = Loop(), torch.randint(31, (3, 7))
    seen = watch(model, ids)
    assert len(seen) == 3
    for example, trace in enumerate(seen):
        assert_same_weights(trace, watch(model, ids[example : example + 1])[0])


def test_rows_that_nothing_assigns_are_a_gap_and_not_a_map_of_another_example():
    class Mixed(Reader):
        def forward(self, input_ids, pixel_values):
            features = self.looker(pixel_values[torch.tensor([2, 0, 1])] * 2)
            x = self.embedding(input_ids)
            return self.attention(x + features.mean((0, 1)))

    seen = watch(Mixed(), torch.cat([text(1, LENGTH)] * 2), torch.randn(3, 3, SIDE, SIDE))
    assert [[each.site for each in trace] for trace in seen] == [["attention"]] * 2
    (gap,) = seen[0].gaps
    assert gap.site == "looker.attention"
    assert "nothing tells which example each belongs to" in gap.reason


def test_pictures_beside_texts_that_never_meet_have_traces_of_their_own():
    class Beside(nn.Module):
        def __init__(self):
            super().__init__()
            self.looker, self.reader = Looker(), Loop()

        def forward(self, input_ids, pixel_values):
            x = self.reader.attention(self.reader.embedding(input_ids))
            return F.normalize(x.mean(1)) @ F.normalize(self.looker(pixel_values).mean(1)).mT

    seen = watch(Beside(), torch.randint(31, (2, 7)), torch.randn(4, 3, SIDE, SIDE))
    assert [[each.site for each in trace] for trace in seen] == [
        ["reader.attention", "looker.attention"],
        ["reader.attention", "looker.attention"],
        ["looker.attention"],
        ["looker.attention"],
    ]


def test_runs_of_calls_without_facts_stay_as_they_are():
    assert assign_parts([], [ModelCall(3)]) == ([], ())


class PatchLooker(nn.Module):
    """Reads the patches of several pictures in one list; a picture may see the others."""

    def __init__(self, across):
        super().__init__()
        self.attention, self.across = Attends(), across

    def forward(self, patches, ends):
        places = torch.arange(len(patches))
        picture = torch.searchsorted(ends, places, right=True)
        mask = None if self.across else picture[:, None] == picture
        return self.attention(patches[None], mask)


@pytest.mark.parametrize("across", [False, True])
def test_pictures_in_one_list_are_examples_unless_they_see_one_another(across):
    patches, ends = torch.randn(18, 6), torch.tensor([0, 5, 18])
    seen = watch(PatchLooker(across), patches, ends)
    expected = [(1, 18, 18)] if across else [(1, 5, 5), (1, 13, 13)]
    assert [trace.maps[0].shape for trace in seen] == expected


class TwiceAtOneSite(Loop):
    """Attends with a row for each example, and then with two rows for each."""

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        self.attention(x)
        return self.attention(x[:, None].repeat(1, 2, 1, 1).cumsum(1).flatten(0, 1))


def test_two_calls_at_a_site_are_no_loop_over_two_examples():
    model, ids = TwiceAtOneSite(), torch.randint(31, (2, 7))
    seen = watch(model, ids)
    for example, trace in enumerate(seen):
        assert len(trace) == 3
        assert_same_weights(trace, watch(model, ids[example : example + 1])[0])
