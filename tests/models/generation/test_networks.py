"""The models of the room write as their peers do, one by one as together."""

import pytest
import torch

from models.generation.test_peers import IDS, WAYS, gpt2, marian, theirs
from regard.models import Recurrent, from_pretrained
from regard.models.generation import GenerationSettings, generate


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of transformers, and the same in our hands."""
    found = {}
    for make, seed in ((marian, 7), (gpt2, 5)):
        folder = tmp_path_factory.mktemp(make.__name__)
        make(seed).save_pretrained(folder)
        found[make.__name__] = (make(seed), from_pretrained(folder))
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["marian", "gpt2"])
def test_a_loaded_model_writes_what_transformers_writes(models, name, way):
    peer, ours = models[name]
    expected = theirs(peer, IDS, **WAYS[way])
    found = ours.generate(IDS, max_length=23, **WAYS[way])
    assert torch.equal(found.sequences, expected.sequences)
    if "num_beams" in WAYS[way]:
        torch.testing.assert_close(found.scores, expected.sequences_scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["marian", "gpt2"])
def test_many_beams_of_many_sentences_are_those_of_transformers(models, name):
    peer, ours = models[name]
    ids = torch.randint(5, 50, (7, 5), generator=torch.Generator().manual_seed(3))
    expected = theirs(peer, ids, num_beams=5).sequences
    assert torch.equal(ours.generate(ids, max_length=23, num_beams=5).sequences, expected)


@pytest.mark.parametrize("beams", [1, 5])
@pytest.mark.parametrize("name", ["marian", "gpt2"])
def test_a_padded_batch_gives_what_each_gives_alone(models, name, beams):
    ours = models[name][1]
    prompts = [[7, 11, 13, 5, 3], [9], [21, 22, 23], [8, 40]]
    together = ours.generate(prompts, max_length=17, num_beams=beams)
    for index, ids in enumerate(prompts):
        alone = ours.generate(torch.tensor([ids]), max_length=17, num_beams=beams)
        assert together[index].tolist() == alone[0].tolist()
        assert together.scores[index] == pytest.approx(float(alone.scores[0]), abs=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_recurrent_model_writes_a_batch_as_each_alone(beams):
    model = Recurrent(vocab=31, target_vocab=37, hidden=22, d_embed=7).eval()
    model.generation = GenerationSettings(
        decoder_start_token_id=1, eos_token_id=(2,), pad_token_id=0
    )
    sources = [[7, 11, 13, 5], [9], [21, 22, 23]]
    together = generate(model, sources, num_beams=beams, max_new_tokens=9)
    for index, ids in enumerate(sources):
        alone = generate(model, torch.tensor([ids]), num_beams=beams, max_new_tokens=9)
        assert together[index].tolist() == alone[0].tolist()
