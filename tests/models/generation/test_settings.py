import json

import pytest

from regard.errors import FileError, InputError, RegardError, UnknownNameError
from regard.models.generation import GenerationSettings


def test_a_file_of_transformers_is_read_and_what_means_nothing_here_is_passed_over():
    text = json.dumps(
        {
            "_from_model_config": True,
            "bad_words_ids": [[65000]],
            "eos_token_id": 0,
            "forced_eos_token_id": 0,
            "max_length": 512,
            "num_beams": 6,
            "pad_token_id": None,
            "transformers_version": "5.0",
        }
    )
    settings = GenerationSettings.from_json(text)
    assert settings == GenerationSettings(
        bad_words_ids=((65000,),),
        eos_token_id=(0,),
        forced_eos_token_id=(0,),
        max_length=512,
        num_beams=6,
    )


def test_settings_go_to_json_and_back():
    settings = GenerationSettings(
        num_beams=5, early_stopping="never", eos_token_id=(2, 3), stop_strings=("你", "\n")
    )
    assert GenerationSettings.from_json(settings.to_json()) == settings
    assert "max_length" not in settings.to_json()


def test_one_end_and_several_are_both_several():
    assert GenerationSettings().replace(eos_token_id=7).eos_token_id == (7,)
    assert GenerationSettings().replace(eos_token_id=[7, 5]).eos_token_id == (7, 5)
    assert GenerationSettings().replace(stop_strings="a").stop_strings == ("a",)
    assert GenerationSettings().replace(bad_words_ids=[[5, 3], [2]]).bad_words_ids == ((5, 3), (2,))


def test_an_unknown_setting_is_told_the_nearest():
    with pytest.raises(UnknownNameError, match="no setting 'num_beam'; did you mean 'num_beams'"):
        GenerationSettings().replace(num_beam=3)


def test_a_new_length_replaces_the_default_of_the_other_kind():
    settings = GenerationSettings(max_length=512).replace(max_new_tokens=7)
    assert (settings.max_length, settings.max_new_tokens) == (None, 7)
    settings = GenerationSettings(max_new_tokens=7).replace(max_length=11)
    assert (settings.max_length, settings.max_new_tokens) == (11, None)


def test_none_means_the_default():
    assert (
        GenerationSettings(top_k=3, num_beams=5).replace(top_k=None, num_beams=None)
        == GenerationSettings()
    )


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "min_p"])
def test_what_is_for_sampling_is_not_passed_over_without_it(name):
    value = 7 if name == "top_k" else 0.5
    assert GenerationSettings().replace(do_sample=True, **{name: value})
    with pytest.raises(InputError, match=f"{name} is for sampling; add do_sample=True"):
        GenerationSettings().replace(**{name: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0, "do_sample": True}, "temperature should be more than 0, got 0; for"),
        ({"temperature": float("nan"), "do_sample": True}, "temperature should be more than 0"),
        ({"top_p": 0.0, "do_sample": True}, "top_p should be more than 0 and at most 1, got 0.0"),
        ({"top_p": 1.5, "do_sample": True}, "top_p should be more than 0 and at most 1, got 1.5"),
        ({"min_p": -0.1, "do_sample": True}, "min_p should be from 0 to 1, got -0.1"),
        ({"top_k": -1}, "top_k should be a whole number from 0, got -1"),
        ({"num_beams": 0}, "num_beams should be a whole number from 1, got 0"),
        ({"num_beams": 2.5}, "num_beams should be a whole number from 1, got 2.5"),
        ({"num_return_sequences": "3"}, "num_return_sequences should be a whole number"),
        ({"max_length": 0}, "max_length should be a whole number from 1, got 0"),
        ({"max_new_tokens": True}, "max_new_tokens should be a whole number from 1, got True"),
        ({"repetition_penalty": 0}, "repetition_penalty should be more than 0, got 0; 1 is none"),
        ({"length_penalty": float("inf")}, "length_penalty should be a number, got inf"),
        ({"early_stopping": "always"}, 'early_stopping should be True, False or "never"'),
        ({"stop_strings": [""]}, "one of stop_strings is empty; leave it out"),
        ({"bad_words_ids": [[]]}, "one of bad_words_ids is empty; leave it out"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_a_sentence(unchecked, settings, message):
    with pytest.raises(InputError, match=message):
        GenerationSettings().replace(**settings)


def test_both_lengths_at_once_are_refused():
    with pytest.raises(InputError, match="give max_length or max_new_tokens, not both"):
        GenerationSettings().replace(max_length=5, max_new_tokens=3)


@pytest.mark.parametrize("text", ["{", "[1]", ""])
def test_a_broken_file_is_said_to_be_so(text):
    with pytest.raises(FileError, match="the generation settings"):
        GenerationSettings.from_json(text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('{"eos_token_id": "x"}', r"expected eos_token_id\[0\] to be a whole number, got 'x'"),
        ('{"eos_token_id": {}}', r"expected eos_token_id\[0\] to be a whole number, got {}"),
        ('{"eos_token_id": 0.5}', r"expected eos_token_id\[0\] to be a whole number, got 0.5"),
        ('{"pad_token_id": [3]}', r"expected pad_token_id to be a whole number or null, got \[3\]"),
        ('{"bad_words_ids": [["x"]]}', r"expected bad_words_ids\[0\]\[0\] to be a whole number"),
        ('{"stop_strings": [3]}', r"expected stop_strings\[0\] to be text, got 3"),
        ('{"seed": 18446744073709551616}', "expected seed to be a whole number or null"),
        ('{"top_k": 18446744073709551616}', "expected top_k to be a whole number"),
        ('{"top_p": 1' + 400 * "0" + "}", "top_p should be more than 0 and at most 1"),
        ('{"temperature": null, "do_sample": 3}', "expected do_sample to be true or false"),
        ('{"temperature": "hot"}', "expected temperature to be a number, got 'hot'"),
        ("[" * 9999, "the generation settings is nested too deeply"),
    ],
)
def test_wrong_types_in_a_file_are_named(unchecked, settings, message):
    with pytest.raises(RegardError, match=message):
        GenerationSettings.from_json(settings)
