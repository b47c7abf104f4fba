"""Attribution: which inputs an output of a model depends on, one file for each method."""

from regard.attribution.erasing import Erasing
from regard.attribution.flow import Flow, attention_flow
from regard.attribution.gradients import gradients, input_saliency, logit
from regard.attribution.norms import Norms, value_norms
from regard.attribution.occlusion import Focus, Occlusion, irrelevant_focus, occlusion
from regard.attribution.relevance import relevance, relevance_from
from regard.attribution.rollout import rollout, rollout_from

__all__ = [
    "Erasing",
    "Flow",
    "Focus",
    "Norms",
    "Occlusion",
    "attention_flow",
    "gradients",
    "input_saliency",
    "irrelevant_focus",
    "logit",
    "occlusion",
    "relevance",
    "relevance_from",
    "rollout",
    "rollout_from",
    "value_norms",
]
