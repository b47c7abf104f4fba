import json
import struct
import zlib

import pytest

from loading import checkpoints


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return checkpoints.a_seer(tmp_path_factory.mktemp("seer"))


@pytest.fixture
def picture(tmp_path):
    return checkpoints.a_picture(tmp_path / "cat.png")


def test_one_picture_is_drawn_with_its_classes(run, model, picture):
    result = run("recognise", picture, "--model", model)
    assert result.exit_code == 0
    assert all(f"LABEL_{number}" in result.stdout for number in range(5))
    assert "▀" in result.stdout or "▄" in result.stdout or "█" in result.stdout


def test_several_pictures_have_a_line_each(run, model, picture):
    lines = run("recognise", picture, picture, "--model", model).stdout.splitlines()
    assert [line.split("\t")[2] for line in lines] == [picture, picture]
    assert all(line.startswith("LABEL_") for line in lines)


def test_json_has_one_object_per_picture_in_order(run, model, picture, tmp_path):
    other = checkpoints.a_picture(tmp_path / "dog.jpg", "JPEG")
    result = run("recognise", other, picture, "--model", model, "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["picture"] for record in records] == [other, picture]
    for record in records:
        assert len(record["scores"]) == 5
        assert record["label"] == max(record["scores"], key=record["scores"].get)
        assert record["score"] == max(record["scores"].values())


@pytest.mark.parametrize("suffix", [".html", ".png"])
def test_the_picture_is_written(run, model, picture, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    result = run("recognise", picture, "--model", model, "--out", str(out))
    assert (result.exit_code, result.stdout) == (0, f"{out}\n")
    assert out.stat().st_size > 1000


def a_bomb(path):
    """A PNG file of 20,000 x 10,000 pixels in some hundred bytes."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 20_000, 10_000, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"")), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return str(path)


def test_bad_pictures_are_refused_in_one_sentence(run, model, picture, tmp_path):
    (tmp_path / "text.txt").write_text("I love you")
    whole = checkpoints.a_picture(tmp_path / "whole.jpg", "JPEG")
    data = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.png").write_bytes(b"")
    for path, message in {
        "I love you": "there is no file 'I love you'",
        str(tmp_path / "text.txt"): "text.txt is no picture; give a PNG",
        str(tmp_path / "empty.png"): "empty.png is no picture",
        str(tmp_path / "cut.jpg"): "cannot read the picture",
        str(tmp_path): "cannot read the picture",
        a_bomb(tmp_path / "bomb.png"): "exceeds limit of",
        "": "there is no file",
    }.items():
        result = run("recognise", path, "--model", model)
        assert (result.exit_code, result.stdout) == (2, ""), path
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert run("recognise", whole, "--model", model).exit_code == 0


def test_without_a_model_the_sentence_says_what_to_name(run, picture):
    result = run("recognise", picture)
    assert result.exit_code == 2
    assert "no model for recognise is shipped with this version; name one with --model" in (
        result.stderr
    )
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'PICTURE...'"),
        (["a.png", "b.png", "--out", "a.html"], "--out draws one input, got 2"),
        (["a.png", "--out", "a.doc"], "cannot write 'a.doc'"),
    ],
)
def test_bad_calls_are_refused(run, model, arguments, message):
    result = run("recognise", *arguments, "--model", model)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_grid_is_read_as_rows_and_columns(run, model, picture, tmp_path):
    looked = run("look", picture, "--model", model, "--grid", "2x8")
    assert looked.exit_code == 0
    assert run("look", picture, "--model", model).stdout != looked.stdout
    for grid in ("14", "0x7", "axb"):
        refused = run("look", picture, "--model", model, "--grid", grid)
        assert refused.exit_code == 2
        assert "expected ROWSxCOLUMNS, such as 14x14" in refused.stderr
    refused = run("look", picture, "--model", model, "--grid", "9x9")
    assert refused.exit_code == 2
    assert "a grid of 9 x 9 has 81 patches" in refused.stderr
