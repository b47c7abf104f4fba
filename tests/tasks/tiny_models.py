"""Small models for tasks: random ones of transformers, and ones whose answer is known."""

import warnings

import torch
from torch import nn

from regard.loading import LoadedModel
from regard.loading.abilities import Abilities, abilities_of_transformers_model, label_names
from tracing import readers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers as hf

LABELS = ("bad", "good", "so so")
SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def loaded(model: nn.Module, able: Abilities | None = None, **facts) -> LoadedModel:
    """A model with the word-piece tokenizer of the tests."""
    able = abilities_of_transformers_model(model) if able is None else able
    return LoadedModel("tiny", model.eval(), readers.word_piece(), False, **able._asdict(), **facts)


def _electra(kind: str, positions: int, **settings):
    vocab = len(readers.word_piece())
    config = hf.ElectraConfig(
        vocab_size=vocab, embedding_size=24, max_position_embeddings=positions, **SIZES, **settings
    )
    torch.manual_seed(3)
    return getattr(hf, f"ElectraFor{kind}")(config)


def a_classifier(positions: int = 61, **settings) -> LoadedModel:
    names = dict(enumerate(LABELS))
    model = _electra("SequenceClassification", positions, id2label=names, **settings)
    nn.init.normal_(model.classifier.out_proj.weight)  # transformers begins with tiny weights
    multi = settings.get("problem_type") == "multi_label_classification"
    labels = label_names(model)
    return loaded(model, context_length=positions, labels=labels, multi_label=multi)


def an_answerer(positions: int = 61) -> LoadedModel:
    return loaded(_electra("QuestionAnswering", positions), context_length=positions)


class SpanByToken(nn.Module):
    """A reader without attention: the answer is every token with one of these ids."""

    def __init__(self, starts: dict[int, float], ends: dict[int, float]) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.full((len(readers.word_piece()), 2), -9.0))
        with torch.no_grad():
            for side, logits in enumerate((starts, ends)):
                for token, logit in logits.items():
                    self.table[token, side] = logit

    def forward(self, input_ids, attention_mask=None):
        return self.table[input_ids]


def a_known_reader(starts: dict[str, float], ends: dict[str, float], positions=61) -> LoadedModel:
    """A reader whose answers begin and end with tokens of these texts, by their logits."""
    numbers = readers.word_piece().convert_tokens_to_ids
    model = SpanByToken(
        {numbers(text): logit for text, logit in starts.items()},
        {numbers(text): logit for text, logit in ends.items()},
    )
    able = Abilities(False, False, False, False, answers=True)
    return loaded(model, able, context_length=positions)
