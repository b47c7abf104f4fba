"""Models of which it is known what each word and each head does, and a tokenizer for them."""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import Recurrent, Transformer
from regard.models.generation import GenerationSettings
from regard.models.tokenizers import Tokenizer

LINES = ["we love tea and cats", "you see the big cat", "they help us", "she knows him well"]
SOUGHT = 3


@functools.cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES * 3, "word", 60)


class Finder(nn.Module):
    """Looks for one id, wherever it is, and says as a class which it found."""

    def __init__(self, vocabulary: int = 11, sought: int = SOUGHT, sharp: float = 30.0) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.eye(vocabulary))
        self.sought, self.sharp = sought, sharp

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids)[:, None]
        query = F.one_hot(torch.tensor(self.sought), x.shape[-1]).float().expand(len(x), 1, 1, -1)
        found = F.scaled_dot_product_attention(query, x * self.sharp, x, scale=1.0)
        return found[:, 0, 0] * 10


class Distracted(nn.Module):
    """Looks at one id, which says nothing, and says which id stands first."""

    def __init__(self, vocabulary: int = 11, distraction: int = SOUGHT) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.eye(vocabulary))
        self.distraction = distraction

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids)[:, None]
        query = x.new_zeros(len(x), 1, 1, x.shape[-1])
        query[..., self.distraction] = 3.0
        found = F.scaled_dot_product_attention(query, x, torch.zeros_like(x), scale=1.0)
        return found[:, 0, 0] + x[:, 0, 0] * 10


class Copier(nn.Module):
    """Three heads that look at the token before, at what followed the same, and at the same."""

    def __init__(self, vocabulary: int = 31) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, 6)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids).unflatten(-1, (3, 2)).transpose(1, 2)
        nothing = x * 0
        mixed = F.scaled_dot_product_attention(nothing, nothing, x, attn_mask=self.looks(input_ids))
        return mixed.transpose(1, 2).flatten(2)

    def looks(self, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1])
        before = (place == place[:, None] - 1).expand(len(ids), -1, -1)
        same = (ids[:, None] == ids[:, :, None]) & (place < place[:, None])
        after = F.pad(same, (1, 0))[..., :-1]
        seen = torch.stack([before, after, same], dim=1)
        seen = seen | (~seen.any(dim=-1, keepdim=True) & (place == place[:, None]))
        return seen.float() * 50


def writer() -> Transformer:
    """A small decoder that continues a text."""
    torch.manual_seed(3)
    sizes = {"d_model": 12, "layers": 2, "heads": 3, "d_ff": 17}
    model = Transformer(kind="decoder", vocab=len(tokenizer()), dropout=0.0, **sizes).eval()
    model.tokenizer = tokenizer()
    return model


def reader(**settings: object) -> Transformer:
    """A small encoder, of vectors unless it has a head."""
    torch.manual_seed(5)
    sizes = {"d_model": 14, "layers": 2, "heads": 2, "d_ff": 17, "dropout": 0.0}
    return Transformer(kind="encoder", vocab=len(tokenizer()), **sizes, **settings).eval()


def translator(recurrent: bool = False) -> Transformer | Recurrent:
    torch.manual_seed(7)
    words = len(tokenizer())
    if recurrent:
        model = Recurrent(vocab=words, d_embed=13, hidden=22, dropout=0.0).eval()
    else:
        sizes = {"d_model": 14, "layers": 1, "heads": 2, "d_ff": 17, "dropout": 0.0}
        model = Transformer(vocab=words, **sizes).eval()
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(2.0)  # surer of what it writes
    model.tokenizer = tokenizer()
    model.generation = GenerationSettings().replace(
        decoder_start_token_id=tokenizer().bos_token_id,
        eos_token_id=tokenizer().eos_token_id,
        pad_token_id=tokenizer().pad_token_id,
        max_new_tokens=7,
    )
    return model
