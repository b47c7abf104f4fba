"""The model of a task is named, or a default one; a model of another task is refused."""

import pytest

from loading import checkpoints
from regard.errors import InputError
from regard.tasks import models
from regard.tasks.models import task_model
from tasks.tiny_models import a_classifier, an_answerer


def test_without_a_name_and_a_default_the_sentence_says_what_to_name():
    with pytest.raises(InputError, match="no model for answer is shipped with this version"):
        task_model("answer", None)


def test_a_default_model_is_one_entry_of_the_registry(tmp_path, monkeypatch):
    folder = checkpoints.foreign("classifier", tmp_path)
    monkeypatch.setattr(models, "DEFAULT_MODELS", {"classify": folder})
    assert task_model("classify", None, "cpu").labels == ("LABEL_0", "LABEL_1")


@pytest.mark.parametrize(
    ("task", "make", "message"),
    [
        ("classify", an_answerer, r"tiny \(ElectraForQuestionAnswering\) gives texts no classes"),
        ("answer", a_classifier, r"finds no answers in texts; name a ForQuestionAnswering model"),
    ],
)
def test_a_model_of_another_task_is_refused(task, make, message):
    with pytest.raises(InputError, match=message):
        task_model(task, make())


def test_a_translator_and_a_vision_model_are_refused(tmp_path):
    for make in (checkpoints.a_translator, checkpoints.a_seer):
        with pytest.raises(InputError, match="gives texts no classes"):
            task_model("classify", make(tmp_path / make.__name__))


def test_a_loaded_model_stays_where_it_is():
    with pytest.raises(InputError, match="device= is for a model that is named"):
        task_model("classify", a_classifier(), "cpu")
