"""The tasks that a model can be trained on, one file each, and the registry of their names.

A task knows what the training loop does not: how a corpus becomes batches of tensors, which loss is
minimised, and which metrics are taken on held-out examples. It is a class with

- `Task(recipe, tokenizer)`, and the methods of `regard.training.loop.Task`: `batches`, `collate`,
  `loss`, `evaluate`;
- `learn_tokenizer(recipe)`, a static method that learns the tokenizer from the recipe's corpus;
- `transformer_settings`, the settings that a Transformer has for this task unless the recipe says
  otherwise;
- `output_settings(recipe)`, a static method that gives the settings of any model that follow from
  the recipe's data, such as the number of labels.

To add one, write its file here and add it to `TASKS`. The name is what a recipe gives as
`task = "translation"`; everything that lists tasks reads this registry.
"""

from typing import Any

from regard.training.tasks.answering import Answering
from regard.training.tasks.classification import Classification
from regard.training.tasks.language_modelling import LanguageModelling
from regard.training.tasks.matching import Matching
from regard.training.tasks.summarisation import Summarisation
from regard.training.tasks.translation import Translation

__all__ = [
    "TASKS",
    "Answering",
    "Classification",
    "LanguageModelling",
    "Matching",
    "Summarisation",
    "Translation",
]

TASKS: dict[str, Any] = {
    "translation": Translation,
    "language-modelling": LanguageModelling,
    "classification": Classification,
    "answering": Answering,
    "summarisation": Summarisation,
    "matching": Matching,
}
