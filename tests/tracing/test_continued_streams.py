"""Decoding steps whose embedding is another one than the prompt's: continued by their keys."""

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.tracing.assembly.token_labels import TokenLabels
from tracing.decoders import Decoder, Growing
from tracing.strangers import BATCH, HEADS, WIDTH, hf, needs_registries

pytestmark = [pytest.mark.usefixtures("unchecked"), needs_registries]

TEXT = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "vocab_size": 101,
}
PICTURE = {key: value for key, value in TEXT.items() if key != "vocab_size"} | {
    "image_size": 32,
    "patch_size": 8,
}
PICTURE_TOKEN, PICTURE_TOKENS, PROMPT, NEW = 97, 5, 9, 4


def vectors():
    inputs = {"inputs_embeds": torch.randn(BATCH, PROMPT, WIDTH)}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**TEXT)), inputs


def picture_and_text():
    language = {"model_type": "opt", "word_embed_proj_dim": WIDTH, "ffn_dim": 64} | TEXT
    config = hf.Blip2Config(
        vision_config=PICTURE,
        qformer_config=TEXT | {"encoder_hidden_size": WIDTH},
        text_config=language | {"max_position_embeddings": 64},
        num_query_tokens=PICTURE_TOKENS,
        image_token_index=PICTURE_TOKEN,
    )
    ids = torch.randint(10, 90, (BATCH, PROMPT))
    ids[:, :PICTURE_TOKENS] = PICTURE_TOKEN
    inputs = {"input_ids": ids, "pixel_values": torch.randn(BATCH, 3, 32, 32)}
    return hf.Blip2ForConditionalGeneration(config), inputs


def summed_codebooks():
    body = {"head_dim": 12, "intermediate_size": 64, "num_hidden_layers": 2}
    body |= {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_key_value_heads": HEADS}
    cross = {"cross_num_attention_heads": HEADS, "cross_num_key_value_heads": HEADS}
    cross |= {"cross_head_dim": 12, "cross_hidden_size": WIDTH, "num_channels": 3}
    config = hf.DiaConfig(
        encoder_config=body | {"vocab_size": 101},
        decoder_config=body | cross | {"vocab_size": 60},
        delay_pattern=[0, 1, 2],
        pad_token_id=50,
        eos_token_id=51,
        bos_token_id=52,
    )
    inputs = {"input_ids": torch.randint(10, 90, (BATCH, 7))}
    return hf.DiaForConditionalGeneration(config), inputs


def looped_layers():
    if not hasattr(hf, "HrmTextConfig"):
        pytest.skip("this transformers has no looped layers")
    config = hf.HrmTextConfig(**TEXT, head_dim=12, H_cycles=2, L_cycles=2)
    return hf.HrmTextForCausalLM(config), {"input_ids": torch.randint(10, 90, (BATCH, PROMPT))}


def generate(model, inputs, **options):
    return model.generate(**inputs, max_new_tokens=NEW, do_sample=False, **options)


def eager_rows(model, inputs):
    """The weights of each layer by the model itself: all steps as one map, layer by layer."""
    model.set_attn_implementation("eager")
    options = {"output_attentions": True, "return_dict_in_generate": True}
    output = generate(model, inputs, **options)
    steps = output.get("decoder_attentions") or output["attentions"]
    keys = steps[-1][0].shape[3]
    layers = zip(*steps, strict=True)
    return [
        torch.cat([F.pad(row, (0, keys - row.shape[3])) for row in layer], 2) for layer in layers
    ]


def own_maps(trace):
    """The maps of a language model's own tokens, in the order of its layers' names."""
    queries = max(each.shape[1] for each in trace if each.kind == "decoder")
    return [each for each in trace if each.kind == "decoder" and each.shape[1] == queries]


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("make", [vectors, picture_and_text, summed_codebooks, looped_layers])
@torch.no_grad()
def test_steps_continue_the_keys_of_the_prompt(make, cache):
    model, inputs = make()
    options = {} if cache is None else {"cache_implementation": cache}
    with regard.watch(model.eval()) as seen:
        generate(model, inputs, **options)
    expected = eager_rows(model, inputs)
    for example, trace in enumerate(seen):
        weights = [each.weights() for each in own_maps(trace)]
        assert len(weights) == len(expected)
        for layer in expected:
            assert any(torch.allclose(layer[example], own, atol=1e-6) for own in weights)


@torch.no_grad()
def test_a_step_is_self_attention_whatever_its_embedding_is_called():
    model, inputs = vectors()
    with regard.watch(model.eval()) as seen:
        generate(model, inputs)
    assert [(each.site, each.kind) for each in seen[0]] == [
        (f"model.layers.{layer}.self_attn", "decoder") for layer in range(2)
    ]


def prefix_and_text():
    body = {key: value for key, value in PICTURE.items() if key != "num_hidden_layers"}
    config = hf.GitConfig(
        vision_config=body | {"num_hidden_layers": 1},
        **TEXT,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    inputs = {"input_ids": torch.randint(10, 90, (BATCH, PROMPT))}
    return hf.GitForCausalLM(config), inputs | {"pixel_values": torch.randn(BATCH, 3, 32, 32)}


def read_again(model, inputs, sequence):
    """The weights that the model itself has when it reads a hypothesis at once."""
    model.set_attn_implementation("eager")
    if "inputs_embeds" in inputs:
        new = model.get_input_embeddings()(sequence)
        inputs = {"inputs_embeds": torch.cat([inputs["inputs_embeds"], new], 1)}
    else:
        inputs = inputs | {"input_ids": torch.cat([inputs["input_ids"], sequence], 1)}
    output = model(**inputs, output_attentions=True)
    return output.get("attentions") or output.language_model_outputs.attentions


@pytest.mark.parametrize("make", [vectors, picture_and_text, prefix_and_text, looped_layers])
@torch.no_grad()
def test_each_beam_has_the_weights_of_its_hypothesis(make):
    model, inputs = make()
    beams = {"num_beams": 3, "num_return_sequences": 3, "min_new_tokens": NEW}
    with regard.watch(model.eval()) as seen:
        output = generate(model, inputs, **beams, return_dict_in_generate=True)
        seen.set_labels(TokenLabels(rows=output.beam_indices.T.contiguous()))
    for number, trace in enumerate(seen):
        example = slice(number // 3, number // 3 + 1)
        one = {name: tensor[example] for name, tensor in inputs.items()}
        expected = read_again(model, one, output.sequences[number : number + 1, -NEW:])
        shown = [each.weights() for each in own_maps(trace)]
        assert shown
        for weights in expected:
            rows = weights[0, :, :-1, :-1]  # the last token was produced, and not read
            assert any(torch.allclose(rows, own, atol=1e-6) for own in shown)


@torch.no_grad()
def test_a_growing_cache_marks_a_decoder_whose_picture_sees_itself():
    model, inputs = prefix_and_text()
    with regard.watch(model.eval()) as seen:
        generate(model, inputs)
    assert {each.kind for each in seen[0] if "git.encoder" in each.site} == {"decoder"}


class DepthDecoder(torch.nn.Module):
    """Reads frames one by one, and the codes of each frame by a second decoder with a new cache."""

    def __init__(self):
        super().__init__()
        self.frames, self.codes = Decoder(), Decoder()

    def forward(self, ids, caches):
        self.frames(ids, caches=caches)
        own = [Growing() for _ in self.codes.layers]
        for code in range(3):
            self.codes((ids + code) % 31, caches=own)


@torch.no_grad()
def test_codes_of_each_frame_are_a_run_of_their_own():
    model, ids = DepthDecoder().eval(), torch.randint(31, (BATCH, 5))
    caches = [Growing() for _ in model.frames.layers]
    with regard.watch(model) as seen:
        for step in range(5):
            model(ids[:, step : step + 1], caches)
    for example, trace in enumerate(seen):
        assert trace["frames.layers.0"].shape[1:] == (5, 5)
        for step in range(5):
            codes = (ids[example : example + 1, step, None] + torch.arange(3)) % 31
            with regard.watch(model.codes) as whole:
                model.codes(codes)
            shown = trace["codes.layers.1" + (f"#{step}" if step else "")]
            expected = whole[0]["layers.1"].weights()
            torch.testing.assert_close(shown.weights(), expected)
