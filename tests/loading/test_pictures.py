import io

import pytest
import torch

from loading import checkpoints
from regard.errors import FileError, InputError, RegardError
from regard.loading import pictures
from regard.loading.pictures import PixelReader, is_picture, page_picture, read_picture
from regard.models.images import RecogniserConfig


@pytest.fixture
def picture(tmp_path):
    return tmp_path / "cat.png", checkpoints.a_picture(tmp_path / "cat.png")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
def test_a_picture_is_known_by_its_first_bytes(tmp_path, kind):
    checkpoints.a_picture(tmp_path / "cat", kind)
    assert is_picture(tmp_path / "cat")


def test_what_is_no_picture_is_not_taken_for_one(tmp_path):
    (tmp_path / "text.png").write_text("I love you")
    assert not is_picture(tmp_path / "text.png")
    assert not is_picture(tmp_path)
    assert not is_picture(tmp_path / "gone")


def test_a_file_that_is_no_picture_is_named(tmp_path):
    (tmp_path / "text.png").write_text("I love you")
    with pytest.raises(FileError, match=r"text.png is no picture; give a PNG"):
        read_picture(tmp_path / "text.png")


def test_a_picture_that_is_cut_short_is_named(picture):
    path, _ = picture
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(FileError, match="cannot read the picture"):
        read_picture(path)


def test_a_broken_part_inside_a_picture_is_no_traceback(picture):
    path, _ = picture
    data = bytearray(path.read_bytes())
    data[data.index(b"IDAT") - 1] -= 20  # the length of the pixels, which then end too early
    path.write_bytes(data)
    with pytest.raises(FileError, match=r"cannot read the picture .*cat.png: broken PNG file"):
        read_picture(path)


def test_a_large_picture_warns_of_nothing(picture, monkeypatch):
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 19 * 23 - 1)
    assert read_picture(picture[0]).size == (23, 19)


def test_a_picture_for_a_page_that_is_a_folder_is_named(tmp_path):
    with pytest.raises(FileError, match=r"cannot read the picture .*: Is a directory"):
        page_picture(tmp_path, None)


def test_without_pillow_the_way_to_get_it_is_told(picture, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install pillow"):
        read_picture(picture[0])


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_have_the_side_and_the_channels_of_the_model(picture, channels):
    reader = PixelReader(7, channels, [0.5] * channels, [0.5] * channels)
    pixels = reader(images=read_picture(picture[0]))["pixel_values"]
    assert pixels.shape == (1, channels, 7, 7)
    assert pixels.min() >= -1
    assert pixels.max() <= 1


def test_pixels_of_a_model_of_any_size_are_those_of_the_picture(picture):
    pixels = PixelReader(None, 3, [0.0] * 3, [1.0] * 3)(images=read_picture(picture[0]))[
        "pixel_values"
    ]
    assert pixels.shape == (1, 3, 19, 23)
    assert pixels[0, :, 5, 7].tolist() == pytest.approx([1, 120 / 255, 0])


def test_channels_that_no_picture_has_are_refused(picture):
    with pytest.raises(InputError, match="takes 2 channels"):
        PixelReader(7, 2, [0.5] * 2, [0.5] * 2)(images=read_picture(picture[0]))


def test_under_the_patches_lies_what_was_cut_out_of_the_picture(picture):
    from PIL import Image

    class Cutter:
        do_center_crop, crop_size = True, {"height": 5, "width": 5}

        def __call__(self, images, return_tensors):
            return {"pixel_values": torch.rand(1, 3, 5, 5)}

    found = page_picture(picture[0], Cutter())
    assert Image.open(io.BytesIO(found)).size == (5, 5)
    assert page_picture(picture[0], None) == picture[0].read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[" * 9999, "is nested too deeply"),
        ("[]", "should hold a JSON object, got list"),
        ('{"image_mean": "x"}', "expected image_mean to be a number or a list, got 'x'"),
        ('{"image_std": [0.5, null]}', r"expected image_std\[1\] to be a number, got None"),
        ('{"image_std": [0.5, 0.5]}', "expected image_std for each of 3 channels, got 2 numbers"),
    ],
)
def test_wrong_settings_of_a_picture_reader_are_named(tmp_path, settings, message):
    (tmp_path / "preprocessor_config.json").write_text(settings)
    with pytest.raises(RegardError, match=message):
        PixelReader.for_model(tmp_path, RecogniserConfig(), None)
