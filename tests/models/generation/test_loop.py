import pytest
import torch

from models.generation.scripted_models import EOS, START, Memory, Scribe, Table
from regard.errors import InputError, NotFiniteError, UnknownNameError
from regard.models.generation import generate

PROMPTS = [[3, 5, 2, 8, 6], [7], [4, 4, 9], [2, 10], [5, 6, 7, 8]]
WAYS = {
    "greedy": {"max_length": 17},
    "beam": {"max_length": 13, "num_beams": 3, "num_return_sequences": 2},
    "beam, never": {"max_new_tokens": 11, "num_beams": 5, "early_stopping": "never"},
    "beam, early": {"max_new_tokens": 11, "num_beams": 2, "early_stopping": True},
    "penalty": {"max_length": 19, "num_beams": 3, "repetition_penalty": 1.7, "min_length": 7},
    "phrases": {"max_new_tokens": 13, "no_repeat_ngram_size": 2, "bad_words_ids": [[7], [4, 9]]},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reads_source", [False, True])
def test_a_batch_gives_what_each_gives_alone(way, reads_source):
    scribe = Scribe(vocab=11, reads_source=reads_source, seed=9, sharp=1.5)
    each = WAYS[way].get("num_return_sequences", 1)
    together = generate(scribe, [torch.tensor(ids) for ids in PROMPTS], **WAYS[way])
    for index, ids in enumerate(PROMPTS):
        alone = generate(scribe, torch.tensor([ids]), **WAYS[way])
        for copy in range(each):
            place = index * each + copy
            assert together[place].tolist() == alone[copy].tolist()
            assert together.scores[place] == pytest.approx(float(alone.scores[copy]), rel=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reads_source", [False, True])
def test_rows_say_which_row_of_each_step_a_sequence_went_through(way, reads_source):
    scribe = Scribe(vocab=11, reads_source=reads_source, seed=9, sharp=1.5)
    out = generate(scribe, [torch.tensor(ids) for ids in PROMPTS], **WAYS[way])
    assert len(scribe.steps) >= len(out.rows)
    read = scribe.steps[0].shape[1]
    for sequence, (ids, real) in enumerate(zip(out.sequences, out.real, strict=True)):
        steps = int(real[read:].sum())
        assert (out.rows[:steps, sequence] >= 0).all()
        assert (out.rows[steps:, sequence] == -1).all()
        for step, row in enumerate(out.rows[:steps, sequence]):
            expected = ids[: read + step].masked_fill(~real[: read + step], 0)
            assert torch.equal(scribe.steps[step][row], expected)


def test_finished_sentences_leave_the_batch_and_the_loop_ends_with_the_last():
    scribe = Scribe(vocab=11, seed=9, sharp=1.5)
    out = generate(scribe, [torch.tensor(ids) for ids in PROMPTS], max_new_tokens=17)
    lengths = (out.rows >= 0).sum(dim=0)
    assert len({*lengths.tolist()}) > 1
    assert [len(read) for read in scribe.steps] == [
        int((lengths > step).sum()) for step in range(int(lengths.max()))
    ]


def test_padding_on_either_side_and_lists_are_the_same():
    scribe = Scribe(vocab=11, seed=4, pad_token_id=0)
    right, left = torch.tensor([[3, 5, 2], [7, 0, 0]]), torch.tensor([[3, 5, 2], [0, 0, 7]])
    expected = generate(scribe, [torch.tensor([3, 5, 2]), torch.tensor([7])]).sequences
    for ids in (right, left):
        assert torch.equal(generate(scribe, ids, (ids > 0).long()).sequences, expected)
        assert torch.equal(generate(scribe, ids).sequences, expected)
    assert torch.equal(generate(scribe, [[3, 5, 2], [7]]).sequences, expected)


def test_a_token_of_padding_that_is_also_the_end_is_real_unless_a_mask_says_otherwise():
    scribe = Scribe(vocab=11, seed=4, pad_token_id=EOS)
    out = generate(scribe, torch.tensor([[3, 5, EOS]]), max_new_tokens=2)
    assert out[0][:3].tolist() == [3, 5, EOS]


def test_the_longest_length_counts_the_prompt():
    endless = Table([[0.1, 0.9], [0.9, 0.1]])
    assert len(generate(endless, torch.tensor([[0, 1, 0]]), max_length=7)[0]) == 7
    assert len(generate(endless, torch.tensor([[0, 1, 0]]), max_new_tokens=7)[0]) == 10
    lengths = [len(ids) for ids in generate(endless, [[0], [0, 1, 0]], max_length=7)]
    assert lengths == [7, 7]


@pytest.mark.parametrize("beams", [1, 3])
def test_a_prefix_is_what_the_target_begins_with(beams):
    scribe = Scribe(vocab=11, reads_source=True, seed=9, sharp=1.5)
    sources, prefixes = [[3, 5], [7, 2], [9, 4]], [[6, 8], [2, 5, 7, 9], [8]]
    together = generate(scribe, torch.tensor(sources), prefix=prefixes, num_beams=beams)
    for index, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
        alone = generate(scribe, torch.tensor([source]), prefix=prefix, num_beams=beams)
        assert alone[0][: len(prefix) + 1].tolist() == [START, *prefix]
        assert together[index].tolist() == alone[0].tolist()
        assert together.scores[index] == pytest.approx(float(alone.scores[0]), rel=1e-5)


def test_a_prefix_after_a_prompt_prolongs_it():
    scribe = Scribe(vocab=11, seed=4)
    expected = generate(scribe, [[3, 5, 7], [2, 7]], max_length=11)
    found = generate(scribe, [[3, 5], [2]], prefix=[7], max_length=11)
    assert torch.equal(found.sequences, expected.sequences)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("beams", [1, 2])
def test_logits_that_are_no_numbers_name_the_step_and_the_row(wrong, beams):
    class Broken(Scribe):
        def step(self, state, tokens):
            logits, state = super().step(state, tokens)
            if len(self.steps) == 3:
                logits[beams] = wrong
            return logits, state

    broken = Broken(seed=5, min_new_tokens=7)
    message = rf"logits of row {beams} \(input 1\) are not finite at step 2; look for NaN"
    with pytest.raises(NotFiniteError, match=message):
        generate(broken, [[3, 5], [2, 4]], num_beams=beams)


def test_an_interruption_passes_through():
    class Interrupted(Scribe):
        def step(self, state, tokens):
            if len(self.steps) == 2:
                raise KeyboardInterrupt
            return super().step(state, tokens)

    with pytest.raises(KeyboardInterrupt):
        generate(Interrupted(min_new_tokens=7), torch.tensor([[3]]))


def test_no_gradient_is_followed_and_the_result_can_be_learned_from():
    scribe = Scribe(seed=5)
    scribe.out.requires_grad_()
    out = generate(scribe, torch.tensor([[3, 5]]))
    assert not out.scores.requires_grad
    assert torch.is_grad_enabled()
    table = torch.randn(7, 3, requires_grad=True)
    torch.nn.functional.embedding(out.sequences, table).sum().backward()


def test_half_precision_is_chosen_from_in_single():
    class Half(Scribe):
        def step(self, state, tokens):
            logits, state = super().step(state, tokens)
            return logits.bfloat16(), state

    out = generate(Half(seed=5), torch.tensor([[3, 5]]), num_beams=3)
    assert out.scores.dtype == torch.float32


@pytest.mark.parametrize(
    ("inputs", "settings", "message"),
    [
        (torch.empty(1, 0, dtype=torch.long), {}, "the inputs are empty"),
        ([], {}, "the list of inputs is empty"),
        ([[3], []], {}, "input 1 is empty; give it at least one token"),
        ([torch.tensor([[3]])], {}, "expected a list of 1-D tensors"),
        (torch.rand(2, 3), {}, "expected the ids of one prompt or of a batch, got torch.float32"),
        ([[3, 5], [3, 4, 5]], {"max_length": 3}, "max_length=3 leaves no room after the 3 tokens"),
        ([[3]], {"num_return_sequences": 2}, "num_return_sequences=2 is more than num_beams=1"),
        ([[3]], {"num_beams": 2, "num_return_sequences": 3}, "is more than num_beams=2; ask"),
        ([[3]], {"stop_strings": "a"}, "stop_strings need the text; give the tokenizer"),
        ([[3]], {"suppress_tokens": [7]}, "suppress_tokens names token 7, but .* 0 to 6"),
        ([[3]], {"bad_words_ids": [[2], [3, 11]]}, "bad_words_ids names token 11"),
        ([[3]], {"suppress_tokens": [*range(7)]}, "every token is forbidden to input 0 at step 0"),
        ([[3]], {"prefix": [[1], [2]]}, "expected one prefix, or one for each of 1 inputs, got 2"),
    ],
)
def test_what_cannot_be_written_on_is_refused_with_a_sentence(inputs, settings, message):
    with pytest.raises(InputError, match=message):
        generate(Scribe(), inputs, **settings)


@pytest.mark.parametrize("beams", [1, 2])
def test_that_nothing_may_be_written_is_refused_with_and_without_beams(beams):
    with pytest.raises(InputError, match="every token is forbidden to input 0 at step 0"):
        generate(Scribe(), [[3]], suppress_tokens=range(7), num_beams=beams)


def test_a_mask_that_does_not_fit_is_refused():
    ids = torch.tensor([[3, 5], [2, 4]])
    with pytest.raises(InputError, match=r"attention_mask of \(2, 3\) does not fit"):
        generate(Scribe(), ids, torch.ones(2, 3))
    with pytest.raises(InputError, match="input 1 is empty: its attention_mask is 0 throughout"):
        generate(Scribe(), ids, torch.tensor([[1, 1], [0, 0]]))
    with pytest.raises(InputError, match="a list of sequences needs no attention_mask"):
        generate(Scribe(), [[3]], torch.ones(1, 1))


def test_a_source_without_a_start_token_is_refused():
    scribe = Scribe(reads_source=True, decoder_start_token_id=None)
    with pytest.raises(InputError, match="no token to start with; give decoder_start_token_id"):
        generate(scribe, [[3]])
    assert generate(scribe, [[3]], bos_token_id=2)[0][0] == 2


def test_an_unknown_setting_is_told_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'max_new_tokens'"):
        generate(Scribe(), [[3]], max_tokens=5)


def test_inputs_need_not_be_ids_where_they_are_a_source():
    class Painter(Scribe):
        def begin(self, inputs, attention_mask=None):
            return Memory(inputs.mean(dim=(1, 2)), torch.empty(len(inputs), 0, dtype=torch.long))

    out = generate(Painter(reads_source=True, seed=2), torch.rand(3, 11, 13, 5), num_beams=2)
    assert len(out) == 3


@pytest.mark.parametrize("name", ["max_length", "max_new_tokens"])
def test_a_maximum_that_no_tensor_can_hold_is_no_limit(name):
    writer = Scribe()
    expected = generate(writer, [[3, 5]], max_length=1000)
    assert generate(writer, [[3, 5]], **{name: 10**30})[0].tolist() == expected[0].tolist()
