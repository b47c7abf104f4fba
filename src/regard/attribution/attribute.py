"""`attribute`: any attribution method by its name, from one registry of methods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.attention import last_layer_attention
from regard.attribution.clean_run import CleanRun
from regard.attribution.flow import token_flow
from regard.attribution.gradients import token_gradients
from regard.attribution.norms import token_value_norms
from regard.attribution.objectives import Objective
from regard.attribution.occlusion import token_occlusion
from regard.attribution.relevance import token_relevance
from regard.attribution.rollout import token_rollout
from regard.errors import UnknownNameError
from regard.types import Attribution


@dataclass(frozen=True)
class Method:
    """An attribution method: its name, its paper, and the function from a clean run to values."""

    name: str
    paper: str
    explain: Callable[[CleanRun], Float[Tensor, " token"]]


# The one registration of a method: `attribute` and the rankings that `studies.faithfulness`
# compares follow from it.
ATTRIBUTION_METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method("attention", "Bahdanau et al. 2015", last_layer_attention),
            Method("rollout", "Abnar and Zuidema 2020", token_rollout),
            Method("flow", "Abnar and Zuidema 2020", token_flow),
            Method("value-norms", "Kobayashi et al. 2020", token_value_norms),
            Method("relevance", "Chefer, Gur and Wolf 2021", token_relevance),
            Method("gradient", "Denil et al. 2014", token_gradients),
            Method("occlusion", "Zeiler and Fergus 2014; Li et al. 2016", token_occlusion),
        )
    }
)


def attribute(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    method: str = "gradient",
    *,
    target: str | None = None,
    objective: Objective | None = None,
) -> Attribution:
    """How much each input token contributed to an output of the model, by the method of a name.

    The methods are "attention" (raw weights of the last layer), "rollout", "flow", "value-norms",
    "relevance", "gradient" and "occlusion"; `ATTRIBUTION_METHODS` has their papers. Without an
    `objective`, the output is what the model predicts for the input: the next token, the class, or
    all that a decoder generates. An encoder-decoder is given a `target` text if there is one.

    >>> import regard
    >>> from regard.attribution import attribute
    >>> model = regard.from_pretrained("en-zh-transformer")
    >>> found = attribute(model, model.tokenizer, "I love you", "attention")
    >>> found.objective, found.tokens.texts[found.ranking[0]]
    ('generated text', '▁love')
    """
    if method not in ATTRIBUTION_METHODS:
        raise UnknownNameError("attribution method", method, ATTRIBUTION_METHODS)
    run = CleanRun.of(model, processor, inputs, target=target, objective=objective)
    values = ATTRIBUTION_METHODS[method].explain(run)
    return Attribution(method, run.objective.name, run.value, run.tokens, values)
