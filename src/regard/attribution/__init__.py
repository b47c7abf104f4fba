"""Attribution: which input tokens an output of a model depends on.

`attribute` runs a model on an input and applies one method by its name. For the shipped translator
and "I love you", which it translates as 我爱你::

    >>> import regard
    >>> from regard.attribution import attribute
    >>> model = regard.from_pretrained("en-zh-transformer")
    >>> found = attribute(model, model.tokenizer, "I love you", "occlusion")
    >>> found.tokens.texts
    ('▁I', '▁love', '▁you', '</s>')
    >>> found.objective, round(found.output, 2)  # the probability of the translation
    ('generated text', 0.9)
    >>> [round(value, 2) for value in found.values.tolist()]  # how much it falls without a token
    [0.72, 0.7, 0.71, nan]

Every method is one file with the function of its paper, which can be called by itself, and a
function from a `CleanRun` to one value per token, which `ATTRIBUTION_METHODS`, the registry in
`attribute.py`, lists:

- `attention`: the raw weights of the last layer, the baseline;
- `rollout`, `flow`: all layers joined, from a trace alone (`layer_graph` turns it into a graph);
- `norms`: weights times the norms of value vectors, from a trace that keeps values;
- `relevance`: weights times gradients, from a trace of `capture_gradients`;
- `gradients`: gradient x input, one backward pass;
- `occlusion`: the model runs once more without each word (`erasure` does the erasing).

`clean_run` runs the unchanged example and `objectives` chooses which number of the output is
explained. To add a method, add a file and one line of `ATTRIBUTION_METHODS`.
"""

from regard.attribution.attribute import ATTRIBUTION_METHODS, Method, attribute
from regard.attribution.erasure import ErasureOptions
from regard.attribution.flow import attention_flow
from regard.attribution.gradients import capture_gradients, gradient_times_input
from regard.attribution.norms import value_norms
from regard.attribution.objectives import logit
from regard.attribution.occlusion import occlusion
from regard.attribution.relevance import relevance, relevance_from
from regard.attribution.rollout import rollout, rollout_from

__all__ = [
    "ATTRIBUTION_METHODS",
    "ErasureOptions",
    "Method",
    "attention_flow",
    "attribute",
    "capture_gradients",
    "gradient_times_input",
    "logit",
    "occlusion",
    "relevance",
    "relevance_from",
    "rollout",
    "rollout_from",
    "value_norms",
]
