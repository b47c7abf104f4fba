"""The default config of a model type, made tiny by the names of its attributes.

A rule is a pattern of names and a size; the first rule that matches an attribute counts, and values
that are smaller already stay. Configs inside a config are shrunk too. There are three levels,
because some models tie sizes together in ways that names do not tell; `build.py` tries one after
the other until the model runs::

    tiny           every size that a rule knows: width 64, 4 heads of width 16, 2 layers
    proportional   widths and numbers of heads divided by one factor, widths of heads as they are
    shallow        few layers, tokens and experts, all widths as they are

Layers of each kind that a config lists (`layer_types`) stay: one layer of each.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from transformers import PretrainedConfig

__all__ = ["LEVELS", "VOCABULARY", "repair", "shrink", "walk_configs"]

HEADS, GROUPS, HEAD, LAYERS, VOCABULARY, CONTEXT = 4, 2, 16, 2, 120, 128
WIDTH = HEADS * HEAD
LEVELS = ("tiny", "proportional", "shallow")

_COUNTS = {
    r"(.*_)?(num_hidden_layers|n_layers?|num_layers|(en|de)coder_layers|layers|depth"
    r"|num_(en|de)coder_layers|num_hidden_blocks|num_\w+_layers|decoder_n_layers|num_blocks"
    r"|num_self_attends_per_block|num_layers_per_stack|max_window_layers)": LAYERS,
    r"(.*_)?(vocab_size\w*|n_vocab|hash_byte_group_vocab)": VOCABULARY,
    r"(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts"
    r"|zero_expert_num|ffn_num_experts)": 4,
    r"(.*_)?(num_experts_per_tok|num_selected_experts|moe_topk|moe_k|top_k_experts)": 2,
    r"(n_group|topk_group|n_shared_experts|first_k_dense_replace|num_dense_layers)": 1,
    r".*_layer_period": 2,
    r".*_layer_offset": 1,
}
_INNER = {
    r"(.*_)?(max_position_embeddings|n_positions|max_(source|target)_positions|max_seq_len"
    r"|max_sequence_length|n_ctx|max_seq_length)": CONTEXT,
    r"(.*_)?(intermediate_size|ffn_dim|n_inner|d_ff|d_inner|(en|de)coder_ffn_dim|dim_feedforward"
    r"|ffn_hidden_size|mlp_hidden_size|dff|inner_dim|moe_intermediate_size|mlp_dim|ffn_size"
    r"|shared_expert_intermediate_size|feed_forward_dim|prenet_dim)": 2 * WIDTH,
    r".*_lora_rank": 16,
    r"(.*_)?num_queries": 12,
    r"max_length": CONTEXT,
    r"index_topk": 4,
    r"sliding_window|attention_window_size": 8,
    r"rotary_dim": 8,
}
_GROUPS = r".*(num_key_value_heads|num_kv_heads|n_head_kv|multi_query_group_num|kv_n_heads)"
_HEADS = (
    r"(.*_)?(num_attention_heads|n_heads?|num_heads|(en|de)coder_attention_heads|attention_heads"
    r"|attention_num_heads|num_attn_heads|num_(key|value|query)_heads|num_(self|cross)_attention_heads)"
)
_HEAD = r"(.*_)?(head_dim|attention_head_size|d_kv|kv_channels|d_head|head_size)"
_WIDTHS = (
    r"(.*_)?(hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim|(en|de)coder_hidden_size|width"
    r"|embedding_size|d_embed|projection_dim|proj_dim|hidden_channels|out_hidden_size|output_dim"
    r"|cross_attention_hidden_size|text_embed_dim|word_embed_proj_dim|(en|de)coder_dim|d_latents"
    r"|mm_hidden_size|model_dim|lang_dim|fusion_hidden_size|embedding_dim|emb_dim|hidden_act_dim)"
)
_IMAGES = {r"(image_size|img_size)": 32, r"patch_size": 8}
_TINY = {
    **_COUNTS,
    **_INNER,
    _GROUPS: GROUPS,
    _HEADS: HEADS,
    _HEAD: HEAD,
    _WIDTHS: WIDTH,
    **_IMAGES,
}
_SIDES = {"image_size": (32, 48)}  # of pictures that are no squares
_TOKEN_IDS = re.compile(r".*(_token_ids?|token_index|padding_idx|_token|_id)")
_KINDS = re.compile(
    r".*(layer_types|block_types?|layers_block_type|_pattern|_types)|no_rope_layers"
)
_NOT_LAYERS = re.compile(r".*(num_feat_extract_layers|num_conv\w*_layers|num_feature_layers)")

# what attributes are when a default config leaves them open
_OPEN: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "head_dim": HEAD,
    "num_key_value_heads": GROUPS,
    "intermediate_size": 2 * WIDTH,
    "moe_intermediate_size": WIDTH,
    "shared_expert_intermediate_size": WIDTH,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "context_length": 16,
    "prediction_length": 5,
    "rope_theta": 10000.0,
    "image_token_index": VOCABULARY - 1,
    "image_token_id": VOCABULARY - 1,
    "token_budget": 8,
    "compress_ratio": 2,
    "layer_types": ["full_attention"] * LAYERS,
    "default_language": "en_XX",
    "mrope_section": [HEAD // 2 - 2, 1, 1],
    "xdrope_section": [HEAD // 2 - 3, 1, 1, 1],
    "vocabulary_map": {"<image>": VOCABULARY - 1, "<|image token|>": VOCABULARY - 1},
}


def shrink(config: PretrainedConfig, level: str) -> PretrainedConfig:
    """Shrink a config in place, and the configs in it."""
    tokens: dict[int, int] = {}
    factor = _common_factor(config)
    for part in walk_configs(config):
        _keep_layer_kinds(part)
        for name, value in list(vars(part).items()):
            if name.startswith("_") or _NOT_LAYERS.fullmatch(name):
                continue
            smaller = _shrink_value(name, value, level, factor)
            smaller = _shrink_token(name, smaller, tokens)
            if smaller is not value:  # configs cannot always be compared
                _set(part, name, smaller)
        _settle_relations(part, level)
    return config


def walk_configs(config: PretrainedConfig) -> Iterator[PretrainedConfig]:
    """A config and all configs in it."""
    yield config
    for value in list(vars(config).values()):
        if isinstance(value, PretrainedConfig):
            yield from walk_configs(value)


def repair(config: PretrainedConfig, message: str) -> bool:
    """Change what an error of a model complains about; False if there is nothing to change."""
    if match := re.search(r"has no attribute '(\w+)'", message):
        return _add_attribute(config, match[1])
    if match := re.search(r"sum exactly to (\d+) .*split_sizes=\[(\d+), (\d+), (\d+)\]", message):
        pairs = int(match[1])
        for part in walk_configs(config):
            rope = vars(part).get("rope_parameters")
            if isinstance(rope, dict):
                rope["mrope_section"] = [pairs - 2 * (pairs // 4), pairs // 4, pairs // 4]
        return True
    if match := re.search(r"`?(is_decoder|is_encoder_decoder)`?=True", message):
        _set(config, match[1], True)
        return True
    return False


def _add_attribute(config: PretrainedConfig, name: str) -> bool:
    """Give an attribute to the configs that lack it: that of another one, or a usual value."""
    parts = list(walk_configs(config))
    values = [vars(part)[name] for part in parts if vars(part).get(name) is not None]
    value = (values or [_OPEN.get(name)])[0]
    lacking = [part for part in parts if vars(part).get(name) is None]
    if value is None or not lacking:
        return False
    for part in lacking:
        _set(part, name, value)
    return True


def _set(config: PretrainedConfig, name: str, value: Any) -> None:
    """Set an attribute, unless the config computes or refuses it."""
    try:
        setattr(config, name, value)
    except Exception:  # configs raise errors of many kinds
        return


def _shrink_value(name: str, value: Any, level: str, factor: int) -> Any:
    """The size of an attribute at a level."""
    if level == "tiny" and name in _SIDES and isinstance(value, list | tuple):
        return type(value)(_SIDES[name][: len(value)])
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if level == "proportional" and _matches(name, f"{_GROUPS}|{_HEADS}|{_WIDTHS}"):
        return value // factor if value % factor == 0 else value
    rules = _TINY if level == "tiny" else {**_COUNTS, **(_INNER if level != "shallow" else {})}
    for pattern, size in rules.items():
        if _matches(name, pattern):
            return min(value, size)
    return value


def _matches(name: str, pattern: str) -> bool:
    """True if a pattern is a whole name."""
    return re.fullmatch(pattern, name) is not None


def _common_factor(config: PretrainedConfig) -> int:
    """The largest factor by which all numbers of heads can be divided, at most 32."""
    heads = [
        value
        for part in walk_configs(config)
        for name, value in vars(part).items()
        if _matches(name, f"{_GROUPS}|{_HEADS}") and type(value) is int and value > 1
    ]
    return min(32, math.gcd(*heads)) if heads else 1


def _shrink_token(name: str, value: Any, tokens: dict[int, int]) -> Any:
    """A token id within the small vocabulary; equal ids stay equal, different ones different."""
    if not _TOKEN_IDS.fullmatch(name):
        return value
    if isinstance(value, list):
        return [_shrink_token(name, item, tokens) for item in value]
    if type(value) is int and value >= VOCABULARY - 20:
        return tokens.setdefault(value, VOCABULARY - 1 - len(tokens) % 20)
    return value


def _keep_layer_kinds(config: PretrainedConfig) -> None:
    """Cut lists with an entry for each layer to one layer of each kind, and at least two."""
    lists = {
        name: value
        for name, value in vars(config).items()
        if isinstance(value, list) and len(value) > LAYERS and _KINDS.fullmatch(name)
    }
    if not lists:
        return
    length = max(map(len, lists.values()))
    lists = {name: value for name, value in lists.items() if len(value) == length}
    first = {value.index(kind) for value in lists.values() for kind in value}
    layers = sorted(first | set(range(length - 1, length - 1 - max(0, LAYERS - len(first)), -1)))
    for name, value in lists.items():
        _set(config, name, [value[layer] for layer in layers])
    for name, value in list(vars(config).items()):
        if value == length and name in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
            _set(config, name, len(layers))


def _settle_relations(config: PretrainedConfig, level: str) -> None:
    """Set sizes that follow from others, and lists that have an entry for each size."""
    sizes = vars(config)
    if {"qk_nope_head_dim", "qk_rope_head_dim", "qk_head_dim"} <= sizes.keys():
        _set(config, "qk_head_dim", sizes["qk_nope_head_dim"] + sizes["qk_rope_head_dim"])
    if "attn_layer_indices" in sizes and not sizes["attn_layer_indices"]:
        _set(config, "attn_layer_indices", [LAYERS - 1])  # else no layer attends
    _settle_layers(config)
    for name, value in _OPEN.items():
        if sizes.get(name, value) is None:
            _set(config, name, value)
    for name in ("depths", "num_blocks", "layers", "stage_layers", "num_layers"):
        if isinstance(sizes.get(name), list | tuple):
            _set(config, name, type(sizes[name])(min(size, 1) for size in sizes[name]))
    rope = sizes.get("rope_parameters")
    if level == "tiny" and isinstance(rope, dict):
        _shrink_rope(rope, sizes)


def _settle_layers(config: PretrainedConfig) -> None:
    """Let one layer attend, and fit the sizes of state space layers."""
    sizes = vars(config)
    kinds = sizes.get("layer_types")
    if isinstance(kinds, list) and kinds:
        if all(kind in ("linear_attention", "mamba") for kind in kinds):
            kinds = [*kinds[:-1], "full_attention"]  # else no layer attends
            _set(config, "layer_types", kinds)
        _set(config, "num_hidden_layers", len(kinds))
    if "attn_layer_period" in sizes:
        _set(config, "num_hidden_layers", 2 * LAYERS)  # two layers that share their attention
    if {"expand", "num_heads", "head_dim", "hidden_size"} <= sizes.keys():
        _set(config, "head_dim", sizes["expand"] * sizes["hidden_size"] // sizes["num_heads"])
    if {"mamba_d_ssm", "mamba_n_heads", "mamba_d_head"} <= sizes.keys():
        _set(config, "mamba_d_ssm", sizes["mamba_n_heads"] * sizes["mamba_d_head"])


def _shrink_rope(rope: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Cut lists of rotary embeddings, which have an entry for each pair of features of a head."""
    for part in [rope, *(value for value in rope.values() if isinstance(value, dict))]:
        pairs = int(HEAD * part.get("partial_rotary_factor", 1.0)) // 2
        if part.get("mrope_section"):
            part["mrope_section"] = [pairs - 2, 1, 1]
        for name in ("short_factor", "long_factor"):
            if isinstance(part.get(name), list):
                part[name] = part[name][:pairs]
