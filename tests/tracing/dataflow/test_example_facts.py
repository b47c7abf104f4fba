import pytest
import torch

from regard.tracing.dataflow.example_facts import ExampleFacts, StreamStart
from regard.tracing.dataflow.origins import set_origin, stream_origin

PICTURES = torch.randn(2, 3, 5, 7, 7)


def facts(examples=2, **inputs):
    noted = ExampleFacts()
    noted.begin(inputs, examples)
    return noted


def features(*parts):
    made = torch.cat(parts)
    set_origin(made, stream_origin("pictures", -2))
    return made


def test_rows_are_found_in_the_tensor_of_the_caller():
    noted = facts(pixel_values=PICTURES)
    noted.note_start("all", PICTURES.flatten(0, 1))
    noted.note_start("some", PICTURES.flatten(0, 1)[[0, 2, 3]])
    noted.note_start("others", torch.randn(3, 5, 7, 7))
    assert noted.calls[0].starts == {
        "all": StreamStart(6, (0, 0, 0, 1, 1, 1), 2),
        "some": StreamStart(3, (0, 0, 1), 2),
        "others": StreamStart(3),
    }


def test_a_merge_counts_the_places_of_each_example_once():
    noted, target = facts(pixel_values=PICTURES), torch.randn(2, 11, 5)
    mask = torch.zeros(2, 11, dtype=torch.bool)
    mask[0, :7] = mask[1, 3:5] = True
    source = features(torch.randn(9, 5))
    noted.note_merge(source, target, mask)
    noted.note_merge(source, target, mask[..., None].expand(2, 11, 5))
    noted.note_merge(source, target, mask[0])
    assert noted.calls[0].merges == [("pictures", (7, 2))]


def test_one_example_has_no_parts_to_assign():
    assert not facts(examples=1, pixel_values=PICTURES).has_parts
    assert not facts(input_ids=torch.zeros(2, 7, dtype=torch.long)).has_parts
    assert facts(pixel_values=PICTURES).has_parts


@pytest.mark.parametrize("given", [1, 2])
def test_copies_are_counted_of_features_that_an_earlier_call_has_made_once(given):
    first, second = torch.randn(3, 5), torch.randn(3, 5)
    pixels = torch.cat([torch.randn(2, 5, 7, 7)] * given)
    noted = facts(pixel_values=pixels)
    noted.begin({"input_ids": torch.zeros(4, 11, dtype=torch.long)}, 4)
    mask = torch.zeros(4, 11, dtype=torch.bool)
    mask[:, 2:5] = True
    noted.note_merge(features(first, first, second, second), torch.randn(4, 11, 5), mask)
    assert noted.calls[1].merges == [("pictures", (3, 3, 3, 3))]
    assert noted.calls[1].copies == 2 // given


@pytest.mark.parametrize(
    ("given", "packed"),
    [
        ([[2, 2, 3], [1, 5, 1]], (12, 5)),
        ([[3, 4], [5, 1]], (12, 5)),
        ([0, 12, 17], (12, 5)),
        ([1, 13, 18], ()),
        ([0, 12, 16], ()),
        ([[2, 2, 3], [1, 5, 2]], ()),
        ([[1, 1]] * 17, ()),
    ],
)
def test_grids_or_ends_tell_the_patches_of_each_picture(given, packed):
    noted = facts(examples=17, patches=torch.randn(17, 5), given=torch.tensor(given))
    assert noted.calls[0].packed == packed
