"""Which tokens are padding, as the caller of a model says it: attention_mask and the like.

A mask that reaches an attention function says which pairs of tokens may meet. Whether a token is
padding is another question: the last token of a prefix language model is seen by nobody but itself,
and is real all the same. The caller answers it with a mask over tokens beside the ids.
"""

import re
from collections.abc import Mapping

import torch
from jaxtyping import Bool
from torch import Tensor

__all__ = ["CallerMasks"]

# attention_mask, decoder_attention_mask, src_key_padding_mask, mask; not global_attention_mask of
# Longformer, which marks tokens that all others see, nor masks of heads or of labels
_TOKEN_MASK = re.compile(r"(?!global_)(.*_)?(attention|padding|token|text|input|src|tgt)_mask|mask")
_OF_DECODER = ("decoder_", "tgt_")

TokenMask = Bool[Tensor, "batch token"]


class CallerMasks:
    """The masks over tokens among the inputs of the call of the model that began last."""

    def __init__(self) -> None:
        self._masks: list[TokenMask] = []
        self._decoder_masks: list[TokenMask] = []

    def __bool__(self) -> bool:
        return bool(self._masks or self._decoder_masks)

    def note_inputs(self, inputs: Mapping[str, Tensor]) -> None:
        """Remember the masks that hide some token."""
        masks = {
            name: real
            for name, tensor in inputs.items()
            if _is_token_mask(name, tensor) and (real := _real_tokens(name, tensor)) is not None
        }
        self._masks = [mask for name, mask in masks.items() if not name.startswith(_OF_DECODER)]
        self._decoder_masks = self._masks
        if any(name.startswith(_OF_DECODER) for name in inputs):
            self._decoder_masks = [
                mask for name, mask in masks.items() if name.startswith(_OF_DECODER)
            ]

    def real_tokens(self, batch: int, count: int, *, in_decoder: bool) -> TokenMask | None:
        """Which of `count` tokens are real; None if no mask of this size was given, or several.

        `in_decoder` chooses between the masks of a model that takes one for its decoder.
        """
        masks = self._decoder_masks if in_decoder else self._masks
        fitting = [mask for mask in masks if mask.shape == (batch, count)]
        if not fitting or any(not torch.equal(mask, fitting[0]) for mask in fitting[1:]):
            return None
        return fitting[0]


def _is_token_mask(name: str, tensor: Tensor) -> bool:
    """True if an input has the name and the shape of a mask over tokens."""
    fits = tensor.dim() == 2 and not tensor.is_floating_point()
    return fits and _TOKEN_MASK.fullmatch(name) is not None


def _real_tokens(name: str, mask: Tensor) -> TokenMask | None:
    """The real tokens by a mask; None if it hides none, or is no mask of zeros and ones."""
    if mask.dtype != torch.bool and bool(((mask != 0) & (mask != 1)).any()):
        return None
    # torch's own modules mark padding with True, transformers marks real tokens with 1
    real = ~mask if mask.dtype == torch.bool and "padding" in name else mask.bool()
    return None if bool(real.all()) else real
