"""Surveys: the numbers of every head of a model over a whole corpus.

A survey streams texts through the model and keeps, for each head and each measure, a running count,
mean and sum of squares, so that its size does not grow with the corpus::

    >>> import regard
    >>> from regard.studies.survey import survey
    >>> model = regard.from_pretrained("en-zh-transformer")
    >>> table = survey(model, model.tokenizer, [("I love you", "我爱你"), ("thank you", "谢谢")])
    >>> table
    <Survey of 2 examples: 7 sites, 28 heads, 16 measures>
    >>> row = table.rows[0]
    >>> row["site"], row["head"], row["examples"]
    ('encoder.layers.0.attention', 0, 2)

What calls what: `survey` (`run.py`) reads texts in portions, sorts them by length into groups, and
passes each group to `tracing.statistics`. The sum so far is a `Survey` (`table.py`). Every few
seconds, and when it is interrupted, a `StateFile` (`state.py`) saves how far it has come, and the
same call continues from there. Several processes of torch.distributed share the groups
(`processes.py`). `files.py` writes the result as CSV (with texts from `cells.py`), parquet or JSON.
"""

from regard.studies.survey.files import load_survey, save_survey
from regard.studies.survey.run import survey, takes_pairs
from regard.studies.survey.table import Survey

__all__ = ["Survey", "load_survey", "save_survey", "survey", "takes_pairs"]
