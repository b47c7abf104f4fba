"""Small seeded networks in double precision, and the weights that they used, taken by hand."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import transformers as hf
from torch import Tensor, nn

import regard
from regard.attribution.gradients import capture_gradients
from regard.models import Transformer, TransformerConfig
from regard.tracing import Edit
from regard.types import AttentionMap, Trace

HEADS, WIDTH, VOCAB, LENGTH, SOURCE = 3, 15, 53, 7, 11
OURS = {"vocab": VOCAB, "d_model": WIDTH, "layers": 2, "heads": HEADS, "d_ff": 29, "dropout": 0.0}
MARIAN = {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in (("layers", 2), ("attention_heads", HEADS), ("ffn_dim", 29))
}
BERT = {"num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": 29}


class Network(NamedTuple):
    """A model, what it is given, and the number that is asked about."""

    model: nn.Module
    inputs: dict[str, Tensor]
    objective: Callable[[Any], Tensor]


class Used(NamedTuple):
    """What one site did: its map, the weights of its heads, and the gradient by them."""

    map: AttentionMap
    weights: Tensor
    slope: Tensor


def ours():
    return Transformer(TransformerConfig(**OURS, max_positions=41))


def torchs():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 29, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def bert():
    return hf.BertModel(hf.BertConfig(vocab_size=VOCAB, hidden_size=WIDTH, **BERT))


def gpt2():
    sizes = {"vocab_size": VOCAB, "n_embd": WIDTH, "n_head": HEADS, "n_layer": 2}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


def marian():
    starts = {"pad_token_id": 0, "decoder_start_token_id": 1, "eos_token_id": 2}
    return hf.MarianMTModel(hf.MarianConfig(vocab_size=VOCAB, d_model=WIDTH, **MARIAN, **starts))


MAKERS = {"ours": ours, "torch": torchs, "bert": bert, "gpt2": gpt2, "marian": marian}
ALONE = ("torch", "bert", "gpt2")  # one stream that looks at itself
BOTH = ("ours", "marian")  # an encoder and a decoder


@cache
def network(name: str) -> Network:
    torch.manual_seed(7)
    model = MAKERS[name]().double().eval()
    ids, source = torch.randint(3, VOCAB, (1, LENGTH)), torch.randint(3, VOCAB, (1, SOURCE))
    goal = torch.randn(100, dtype=torch.float64)
    inputs = {"input_ids": ids}
    if name == "torch":
        inputs = {"src": torch.randn(1, LENGTH, WIDTH).double()}
    if name in BOTH:
        inputs = {"input_ids": source, "decoder_input_ids": ids}

    def objective(output):
        found = output if isinstance(output, Tensor) else output[0]
        return found[0, 0 if name == "bert" else -1] @ goal[: found.shape[-1]]

    return Network(model, inputs, objective)


@cache
def traced(name: str) -> Trace:
    """The trace of the network with values, gradients and outputs."""
    model, inputs, objective = network(name)
    keep = regard.tracing.Keep(outputs=True)
    return capture_gradients(model, None, inputs, objective=objective, keep=keep)


@cache
def used(name: str) -> tuple[Used, ...]:
    """The weights of each site, put in by hand, and what torch says of the gradient by them."""
    model, inputs, objective = network(name)
    found = {}

    def noted(call):
        found[call.site] = call.weights()
        return Edit(weights=found[call.site])

    with regard.watch(model, edit=noted) as seen:
        slopes = torch.autograd.grad(objective(model(**inputs)), list(found.values()))
    sides = zip(found.items(), slopes, strict=True)
    return tuple(Used(seen[0][site], weights[0].detach(), s[0]) for (site, weights), s in sides)
