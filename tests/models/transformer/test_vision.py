import pytest
import torch

from regard.errors import InputError, ShapeError
from regard.models import Transformer, TransformerConfig

ROWS, LABELS = 2, 7
SEEING = {"d_model": 12, "layers": 2, "heads": 3, "d_ff": 29, "image_size": 15, "patch": 5}


def viewer(**settings) -> Transformer:
    return Transformer(TransformerConfig.preset("vit", **SEEING, **settings)).eval()


def test_a_picture_becomes_a_class_token_and_its_patches():
    assert viewer()(pixel_values=torch.randn(ROWS, 3, 15, 15)).shape == (ROWS, 10, 12)


def test_a_picture_is_recognised():
    model = viewer(head="classes", labels=LABELS, pooling="first")
    assert model(pixel_values=torch.randn(ROWS, 3, 15, 15)).shape == (ROWS, LABELS)


def test_without_positions_patches_have_no_order():
    model = viewer(positions="none", head="classes", pooling="first")
    pixels = torch.randn(ROWS, 3, 15, 15)
    torch.testing.assert_close(
        model(pixel_values=pixels), model(pixel_values=pixels.roll(5, dims=3)), atol=1e-5, rtol=1e-5
    )


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_picture_gets_its_sentence():
    with pytest.raises(InputError, match="kind 'vision' expected pixel_values"):
        viewer()(torch.ones(1, 2).long())
    with pytest.raises(ShapeError, match=r"\(batch, 3, 15, 15\), got \(2, 3, 16, 15\)"):
        viewer()(pixel_values=torch.randn(2, 3, 16, 15))
