import pytest

from models.generation.scripted_models import Scribe
from regard.loading.abilities import (
    abilities_of_native_model,
    reads_pictures,
    transformer_kind,
    writes_text,
)
from regard.models import Captioner, Recogniser, Recurrent, Transformer

SMALL = {"vocab": 11, "d_model": 6, "layers": 1, "heads": 2, "d_ff": 7}


def transformer(kind, **settings):
    return Transformer(kind=kind, **SMALL, **settings)


@pytest.mark.parametrize(
    ("model", "seeing", "writing"),
    [
        (transformer("encoder-decoder"), False, True),
        (transformer("encoder-decoder", head="none"), False, False),
        (transformer("decoder"), False, True),
        (transformer("encoder"), False, False),
        (transformer("encoder", head="language"), False, False),
        (transformer("vision", image_size=8, patch=4, head="classes"), True, False),
        (Recurrent(vocab=11, d_embed=3, hidden=4), False, True),
        (Captioner(vocab=11, d_embed=3, hidden=4, widths=(2,)), True, True),
        (Recogniser(classes=3, widths=(2,)), True, False),
        (Scribe(), False, True),
    ],
)
def test_what_a_model_is_for_is_told_by_what_it_has(model, seeing, writing):
    assert (reads_pictures(model), writes_text(model)) == (seeing, writing)


def test_only_a_transformer_has_a_kind():
    assert transformer_kind(transformer("decoder")) == "decoder"
    assert transformer_kind(Scribe()) is None


@pytest.mark.parametrize(
    ("model", "able"),
    [
        (transformer("encoder-decoder"), ["translates"]),
        (transformer("decoder"), ["continues"]),
        (transformer("encoder"), []),
        (transformer("encoder", head="classes"), ["classifies"]),
        (transformer("vision", image_size=8, patch=4, head="classes"), ["classifies", "sees"]),
        (Captioner(vocab=11, d_embed=3, hidden=4, widths=(2,)), ["translates", "sees"]),
        (Recogniser(classes=3, widths=(2,)), ["classifies", "sees"]),
        (Scribe(reads_source=True), ["translates"]),
    ],
)
def test_the_abilities_of_a_native_model_follow_from_its_parts(model, able):
    found = abilities_of_native_model(model)._asdict()
    assert [name for name, value in found.items() if value] == able
