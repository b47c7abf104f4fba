"""Accuracy, F1 and the confusion matrix of a classifier."""

import pytest

from regard.errors import InputError
from regard.training.class_metrics import class_metrics

NAMES = ["bad", "good", "so so"]


def test_the_confusion_matrix_has_the_true_class_in_its_rows():
    metrics = class_metrics([0, 1, 1, 2, 0], [0, 1, 0, 1, 0], NAMES)
    assert metrics.confusion == ((2, 1, 0), (0, 1, 1), (0, 0, 0))
    assert metrics.accuracy == pytest.approx(3 / 5)


def test_macro_f1_is_the_mean_over_classes_that_occur_or_are_predicted():
    metrics = class_metrics([0, 0, 1], [0, 1, 1], NAMES)
    assert metrics.f1 == pytest.approx({"bad": 2 / 3, "good": 2 / 3})
    assert metrics.macro_f1 == pytest.approx(2 / 3)
    assert class_metrics([2, 0], [0, 0], NAMES).macro_f1 == pytest.approx((2 / 3 + 0) / 2)


def test_the_metrics_are_json_types():
    assert class_metrics([0], [0], NAMES).to_json()["confusion"] == [
        [1, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
    ]


def test_there_is_a_prediction_for_each_text():
    with pytest.raises(InputError, match="at least one, got 1 and 0"):
        class_metrics([0], [], NAMES)
