import json

import pytest

from tasks.tiny_speech import RATE, a_ctc_model, a_sound, a_whisper

soundfile = pytest.importorskip("soundfile")


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    return a_whisper(tmp_path_factory.mktemp("whisper"))


@pytest.fixture
def sound(tmp_path):
    soundfile.write(tmp_path / "talk.wav", a_sound(1.2), RATE)
    return str(tmp_path / "talk.wav")


def test_each_sound_has_a_line(run, whisper, sound):
    result = run("transcribe", sound, sound, "--model", whisper)
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()
    assert first == second
    assert {*first} <= {*"abc "}


@pytest.mark.parametrize("kind", ["whisper", "ctc"])
def test_json_has_the_words_with_their_times(run, whisper, sound, tmp_path, kind):
    model = whisper if kind == "whisper" else a_ctc_model(tmp_path / "ctc")
    result = run("transcribe", sound, sound, "--model", model, "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["sound"] for record in records] == [sound, sound]
    for record in records:
        assert record["text"].split() == [word["text"] for word in record["words"]]
        for word in record["words"]:
            assert 0 <= word["start"] <= word["end"] <= 2.0


@pytest.mark.parametrize("suffix", [".html", ".png"])
def test_the_picture_is_written(run, whisper, sound, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    result = run("transcribe", sound, "--model", whisper, "--out", str(out))
    assert (result.exit_code, result.stdout) == (0, f"{out}\n")
    assert out.stat().st_size > 1000


def test_bad_sounds_are_refused_in_one_sentence(run, whisper, tmp_path):
    (tmp_path / "text.txt").write_text("I love you")
    soundfile.write(tmp_path / "silent.wav", [0.0] * RATE, RATE)
    for path, message in {
        "I love you": "there is no file 'I love you'",
        str(tmp_path / "text.txt"): "text.txt is no sound; give a WAV, FLAC, OGG or MP3 file",
        str(tmp_path / "silent.wav"): "silent.wav is silent",
        str(tmp_path): "Is a directory",
        "": "there is no file ''",
    }.items():
        result = run("transcribe", path, "--model", whisper)
        assert (result.exit_code, result.stdout) == (2, ""), path
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_without_a_model_the_sentence_says_what_to_name(run, sound):
    result = run("transcribe", sound)
    assert result.exit_code == 2
    assert "name one with --model, the folder or hub name of a Whisper or ForCTC" in result.stderr


def test_a_language_that_the_model_does_not_know_is_refused(run, whisper, sound):
    result = run("transcribe", sound, "--model", whisper, "--spoken", "xx")
    assert result.exit_code == 2
    assert "cannot run on this input" in result.stderr
    assert len(result.stderr.splitlines()) == 1
