import pytest
import torch

from models.generation.scripted_models import Scribe, Table
from regard.models.generation import generate


def test_indexing_gives_ids_without_padding():
    scribe = Scribe(vocab=11, seed=9, sharp=1.5, pad_token_id=0)
    out = generate(scribe, [[3, 5, 2], [7]], max_new_tokens=9)
    assert len(out) == 2
    assert out[1][0] == 7
    assert [ids.tolist() for ids in out] == [out[0].tolist(), out[-1].tolist()]
    assert [ids.tolist() for ids in out[:1]] == [out[0].tolist()]
    assert out.sequences.shape[1] == max(len(out[0]), 2 + len(out[1]))
    with pytest.raises(IndexError):
        out[2]


def test_padding_is_the_end_where_there_is_no_token_for_it():
    writer = Table([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.6, 0.4, 0.0]], eos_token_id=1)
    out = generate(writer, [[0], [1]], max_new_tokens=3)
    assert out.sequences.tolist() == [[0, 2, 0, 2], [1, 1, 1, 1]]
    assert out.real.tolist() == [[True] * 4, [True, True, False, False]]


def test_it_says_how_much_it_holds():
    out = generate(Table([[1.0, 0.0], [1.0, 0.0]]), [[1, 0]], max_new_tokens=3)
    assert repr(out) == "GeneratedSequences(1 sequences, 5 tokens at most)"


def test_beam_indices_name_the_sentence_and_the_beam_though_sentences_leave():
    scribe = Scribe(vocab=11, seed=9, sharp=1.5)
    prompts = [torch.tensor(ids) for ids in ([3, 5], [7, 2], [9, 4])]
    out = generate(scribe, prompts, num_beams=3, num_return_sequences=2)
    used = out.beam_indices >= 0
    assert torch.equal(used, out.rows.t() >= 0)
    sentences = (torch.arange(6) // 2)[:, None].expand_as(used)
    assert torch.equal((out.beam_indices // 3)[used], sentences[used])
    assert torch.equal(out.beam_indices[:, 0], torch.tensor([0, 0, 3, 3, 6, 6]))


def test_beam_indices_without_beams_are_the_sequences():
    scribe = Scribe(vocab=11, seed=9, sharp=1.5)
    out = generate(scribe, [[3, 5], [7, 2]], max_new_tokens=5)
    used = out.beam_indices >= 0
    assert torch.equal(out.beam_indices[used], torch.arange(2)[:, None].expand_as(used)[used])
