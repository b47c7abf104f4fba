import pytest

from models.generation.scripted_models import Scribe
from regard.cli.work.kinds import kind_of, sees, writes
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
    assert (sees(model), writes(model)) == (seeing, writing)


def test_only_a_transformer_has_a_kind():
    assert kind_of(transformer("decoder")) == "decoder"
    assert kind_of(Scribe()) is None
