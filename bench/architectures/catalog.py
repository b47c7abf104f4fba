"""Which classes of transformers are surveyed: the base class of each model type and its tasks."""

from collections.abc import Sequence

import transformers
from transformers.models.auto import modeling_auto

__all__ = ["list_classes", "list_types"]

_BASE = "MODEL_MAPPING_NAMES"
# tasks whose heads generate, or attend themselves; a classifier adds nothing to its base class
_TASKS = (
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_MASK_GENERATION_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_SPECTROGRAM_MAPPING_NAMES",
    "MODEL_FOR_KEYPOINT_MATCHING_MAPPING_NAMES",
    "MODEL_FOR_TIME_SERIES_PREDICTION_MAPPING_NAMES",
    "MODEL_FOR_RNNT_MAPPING_NAMES",
    "MODEL_FOR_TDT_MAPPING_NAMES",
)


def list_types() -> list[str]:
    """Every model type that has a class in one of the mappings."""
    mappings = (_read_mapping(name) for name in (_BASE, *_TASKS))
    return sorted({model_type for mapping in mappings for model_type in mapping})


def list_classes(model_type: str) -> list[str]:
    """The names of the classes of a type that are compared, its base class first."""
    names: dict[str, None] = {}
    for mapping in (_BASE, *_TASKS):
        entry = _read_mapping(mapping).get(model_type, ())
        names |= dict.fromkeys([entry] if isinstance(entry, str) else entry)
    return [name for name in names if hasattr(transformers, name)]


def _read_mapping(name: str) -> dict[str, str | Sequence[str]]:
    """A mapping from model types to names of classes; other versions may lack some."""
    return dict(getattr(modeling_auto, name, {}))
