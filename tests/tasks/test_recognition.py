"""`recognise` gives what the model gives, and shows where on the picture it looked."""

import warnings

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from loading import checkpoints
from regard.errors import FileError, InputError
from regard.models.images import Recogniser
from regard.tasks.models import named_model

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers as hf

LABELS = {0: "cat", 1: "dog", 2: "tea", 3: "sea", 4: "sky"}


def _hub_model(model, place):
    model.save_pretrained(place)
    checkpoints._picture_reader(hf, "ViT")(size={"height": 32, "width": 32}).save_pretrained(place)
    return str(place)


def a_vit(place, **settings):
    config = hf.ViTConfig(
        image_size=32, patch_size=8, id2label=LABELS, **checkpoints.BODY, **settings
    )
    model = hf.ViTForImageClassification(config)
    torch.nn.init.normal_(model.classifier.weight)
    return _hub_model(model, place)


def a_convnext(place):
    config = hf.ConvNextConfig(hidden_sizes=[4, 6, 8, 10], depths=[1, 1, 1, 1], id2label=LABELS)
    return _hub_model(hf.ConvNextForImageClassification(config), place)


@pytest.fixture
def picture(tmp_path):
    return checkpoints.a_picture(tmp_path / "cat.png")


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return regard.load(a_vit(tmp_path_factory.mktemp("vit")), device="cpu")


def expected_scores(loaded, path):
    pixels = loaded.processor(images=Image.open(path).convert("RGB"), return_tensors="pt")
    with torch.no_grad():
        output = loaded.model(pixel_values=pixels["pixel_values"])
    return getattr(output, "logits", output)[0].double().softmax(-1)


def test_the_probabilities_are_those_of_the_model(vit, picture):
    result = regard.recognise(picture, vit)
    expected = expected_scores(vit, picture)
    scores = torch.tensor([result.scores[vit.labels[n]] for n in range(5)], dtype=torch.float64)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-5)
    assert result.answer == vit.labels[int(expected.argmax())]
    assert result.score == max(result.scores.values())
    assert [each.score for each in result.alternatives] == sorted(scores.tolist())[-2::-1]


def test_a_model_without_attention_has_classes_and_says_why_it_has_no_picture(tmp_path, picture):
    loaded = regard.load(a_convnext(tmp_path / "convnext"), device="cpu")
    result = regard.recognise(picture, loaded)
    scores = [result.scores[LABELS[n]] for n in range(5)]
    torch.testing.assert_close(
        torch.tensor(scores).double(), expected_scores(loaded, picture), rtol=0, atol=1e-5
    )
    with pytest.raises(InputError, match="has no attention that can be shown"):
        regard.view(result)


def test_our_own_recogniser_is_drawn_by_its_only_row(tmp_path, picture):
    model = Recogniser(classes=5, widths=(4, 6))
    loaded = regard.load(checkpoints.saved(model, tmp_path / "ours"), device="cpu")
    result = regard.recognise(picture, loaded)
    view = regard.view(result)
    (shown,) = result.trace.maps
    torch.testing.assert_close(
        torch.tensor(view.numbers.weights).flatten(), shown.weights().mean(0)[0]
    )


def test_the_picture_is_drawn_under_the_weights_of_the_class_token(vit, picture):
    result = regard.recognise(picture, vit)
    view = regard.view(result)
    assert (view.state.view, view.state.place) == ("overlay", 0)
    last = result.trace.maps[-1]
    torch.testing.assert_close(
        torch.tensor(view.numbers.weights).flatten(), last.weights().mean(0)[0, 1:]
    )
    one = regard.view(result, head=1)
    torch.testing.assert_close(
        torch.tensor(one.numbers.weights).flatten(), last.weights()[1, 0, 1:]
    )
    assert view.numbers.picture is not None
    assert view.scene.title.startswith(f"{result.answer} (")
    assert regard.view(result, "heatmap").state.view == "heatmap"


def test_a_list_a_pillow_image_and_an_array_give_the_same(vit, picture):
    pixels = Image.open(picture)
    results = regard.recognise([picture, pixels, np.asarray(pixels)], vit, trace=False)
    assert [result.scores for result in results] == [results[0].scores] * 3
    assert [result.inputs["picture"] for result in results] == [picture, "picture", "picture"]


def test_a_photograph_is_turned_as_its_camera_noted(vit, tmp_path):
    levels = np.random.default_rng(0).integers(0, 255, (24, 16, 3), np.uint8)
    upright, turned = tmp_path / "upright.png", tmp_path / "turned.png"
    Image.fromarray(levels).save(upright)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown after a quarter turn to the right
    Image.fromarray(levels).rotate(90, expand=True).save(turned, exif=exif)
    first, second = regard.recognise([str(upright), str(turned)], vit, trace=False)
    assert first.scores == second.scores


def test_several_labels_have_probabilities_of_their_own(tmp_path, picture):
    place = a_vit(tmp_path / "multi", problem_type="multi_label_classification")
    loaded = regard.load(place, device="cpu")
    result = regard.recognise(picture, loaded, trace=False)
    assert sum(result.scores.values()) != pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        ("I love you", FileError, "there is no file 'I love you'; give the path of a PNG"),
        ("x" * 5000, FileError, "there is no file 'xxx"),
        (3, InputError, "expected a picture: a path, a Pillow image, .* got the number 3"),
        (np.zeros((5, 5), np.float32), InputError, r"got float32 of shape \(5, 5\)"),
        (np.zeros((1, 1, 3), np.uint8), InputError, "has 1 x 1 pixels; expected at least 4 x 4"),
    ],
)
def test_what_is_no_picture_is_refused(vit, image, error, message):
    with pytest.raises(error, match=message):
        regard.recognise(image, vit)


def test_a_model_of_another_task_is_refused(tmp_path):
    with pytest.raises(InputError, match="gives pictures no classes; name a ForImageClassific"):
        named_model("recognise", checkpoints.a_translator(tmp_path / "translator"))
    with pytest.raises(InputError, match="no model for recognise is shipped"):
        regard.recognise("cat.png")
