"""What generation needs of a model: to begin with its inputs, and to read tokens step by step."""

from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.models.generation.settings import Settings

Own = TypeVar("Own")


@runtime_checkable
class State(Protocol):
    """All that a model remembers of what its rows have read."""

    def select(self: Own, rows: Int[Tensor, " row"]) -> Own:
        """These rows in this order, a row as often as it is named; the others leave."""
        ...


S = TypeVar("S", bound=State)


@runtime_checkable
class Writer(Protocol[S]):
    """A model that writes: an encoder-decoder, a decoder alone, a captioner.

    A writer with `reads_source` encodes its inputs in `begin` and starts to write from the start
    token; any other goes on from the prompt that its inputs are. The logits of `step` are the
    caller's to change, and a state is spent once `step` or `select` was called on it.
    """

    generation: Settings

    @property
    def reads_source(self) -> bool:
        """Whether the inputs are a source to write about, and not the beginning of the text."""
        ...

    def begin(self, inputs: Any, attention_mask: Int[Tensor, "row length"] | None = None) -> S:
        """The state before the first token; a prompt is padded on its left."""
        ...

    def step(
        self, state: S, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], S]:
        """The logits after the last of the new tokens, and the state that has read them."""
        ...
