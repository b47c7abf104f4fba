"""The model of a task is named, or a default one for the text; a model of another is refused."""

import pytest

from loading import checkpoints
from regard.cli import options
from regard.errors import InputError, UnknownNameError
from regard.tasks import models
from regard.tasks.models import SUBJECTS, TaskModels, default_model, task_model
from tasks.tiny_models import a_classifier, an_answerer


@pytest.fixture
def zoo(monkeypatch):
    """A zoo of two sentiment models and one of topics."""
    names = ("sentiment-en", "sentiment-zh", "topics-en")
    monkeypatch.setattr(models, "shipped_models", lambda: names)
    monkeypatch.setattr(models, "load", lambda name, device: a_classifier())


def test_without_a_shipped_model_the_sentence_says_what_to_name(monkeypatch):
    monkeypatch.setattr(models, "shipped_models", lambda: ())
    with pytest.raises(InputError, match="no model for answer is shipped with this version"):
        TaskModels("answer").for_text("What is it?")


@pytest.mark.parametrize(
    ("key", "text", "name"),
    [
        ("sentiment", "I love it.", "sentiment-en"),
        ("sentiment", "我爱它。", "sentiment-zh"),
        ("topic", "Shares fell.", "topics-en"),
    ],
)
def test_the_default_model_is_that_of_subject_and_language(zoo, key, text, name):
    assert default_model(key, text) == name


@pytest.mark.parametrize(("key", "text"), [("topic", "股票下跌。"), ("sentiment", "Мне нравится.")])
def test_a_language_that_no_model_reads_is_refused(zoo, key, text):
    with pytest.raises(InputError, match=f"shipped models for {key} read English"):
        default_model(key, text)


def test_each_model_is_loaded_once_and_gets_its_own_texts(zoo):
    groups = list(TaskModels("classify").group(["good", "很好", "bad", "不好"]))
    assert [indices for _, indices in groups] == [[0, 2], [1, 3]]
    assert groups[0][0] is not groups[1][0]


def test_a_subject_may_stand_in_place_of_a_models_name(zoo):
    assert TaskModels("classify", "topic").for_text("Shares fell.").classifies


def test_a_subject_beside_a_named_model_is_refused():
    with pytest.raises(InputError, match="task= is for the shipped models"):
        TaskModels("classify", a_classifier(), subject="topic")
    with pytest.raises(InputError, match="contradict each other"):
        TaskModels("classify", "sentiment", subject="topic")
    with pytest.raises(UnknownNameError, match="task of classify"):
        TaskModels("classify", subject="topics")


def test_the_option_offers_the_subjects_of_the_registry():
    option = options.subject(lambda: None).__click_params__[0]
    assert tuple(option.type.choices) == SUBJECTS


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
