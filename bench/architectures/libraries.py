"""Models of other libraries: tiny, random, and compared as those of transformers are.

A `Subject` names a library, a model, and a function that builds it with a run. A library that is
not installed has no rows. Models are chosen to have each kind of attention once: windows, pooled
keys, talking heads, cross-covariance, class attention, relative positions, joint text and picture
attention, video, graphs::

    python -m bench.architectures --libraries

Of the whole configuration only sizes are changed: 64 x 64 pictures, few layers where the library
lets one say so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from bench.architectures.compare import Comparison, compare
from bench.architectures.denoisers import DENOISERS
from bench.architectures.graphs import LAYERS, compare_edges, make_network
from bench.architectures.tensors import random_tensor

__all__ = ["Subject", "list_subjects", "survey_subject"]

Made = tuple[nn.Module, Callable[[], Any]]


@dataclass(frozen=True)
class Subject:
    """A model of a library; `make` builds it and gives the model with a run of two examples.

    `check` adds to the comparison what the independent recorder cannot see.
    """

    library: str
    name: str
    make: Callable[[], Made]
    batch: int = 2
    check: Callable[[nn.Module, Callable[[], Any], Comparison], None] | None = None


def list_subjects() -> list[Subject]:
    """All models of the libraries that are installed."""
    libraries = {
        "timm": _timm,
        "torchvision": _torchvision,
        "diffusers": _diffusers,
        "torchaudio": _torchaudio,
        "x_transformers": _x_transformers,
        "torch_geometric": _graphs,
        "open_clip": _open_clip,
        "vit_pytorch": _vit_pytorch,
    }
    return [
        subject
        for name, make in libraries.items()
        if find_spec(name) is not None
        for subject in make()
    ]


def survey_subject(subject: Subject) -> dict[str, Any]:
    """The row of a model, in the form of the rows of transformers."""
    row = {"type": f"{subject.library}/{subject.name}", "class": subject.name}
    try:
        torch.manual_seed(0)
        model, run = subject.make()
        with torch.no_grad():
            run()
    except Exception as error:
        return {**row, "verdict": "not built", "reason": f"{type(error).__name__}: {error}"[:500]}
    comparison = compare(model, run, subject.batch, perturb=run)
    if subject.check is not None:
        subject.check(model, run, comparison)
    runs = {"forward": {**vars(comparison), "verdict": comparison.verdict}}
    return {**row, "runs": runs, "verdict": comparison.verdict}


def _run(model: nn.Module, *args: Any, **kwargs: Any) -> Made:
    """A model in evaluation mode, with a run of it on fixed inputs."""
    model = model.eval()

    def run() -> Any:
        torch.manual_seed(1)
        return model(*args, **kwargs)

    return model, run


_SMALL = """
vit_tiny_patch16_224 deit_tiny_patch16_224 deit3_small_patch16_224 cait_xxs24_224
beit_base_patch16_224 beitv2_base_patch16_224 eva02_tiny_patch14_224 xcit_nano_12_p16_224
levit_128s pit_ti_224 tnt_s_patch16_224 twins_svt_small twins_pcpvt_small
pvt_v2_b0 mvitv2_tiny poolformer_s12 volo_d1_224 visformer_tiny convit_tiny edgenext_xx_small
efficientformer_l1 efficientformerv2_s0 mobilevit_xxs mobilevitv2_050 coat_lite_tiny
vit_base_patch16_rope_224 vit_relpos_small_patch16_224 vit_srelpos_small_patch16_224
vit_small_patch16_36x1_224 flexivit_small hiera_tiny_224 fastvit_t8 repvit_m0_9
vit_so150m_patch16_reg4_gap_256 vit_medium_patch16_gap_240 resnet50 convnext_atto mixer_s32_224
gmlp_s16_224 botnet26t_256 lambda_resnet26t halonet26t sebotnet33ts_256 inception_next_tiny
davit_tiny focalnet_tiny_srf gcvit_xxtiny
"""  # take pictures of any size
_LARGE = """
swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 maxvit_rmlp_pico_rw_256 coatnet_pico_rw_224
nest_tiny tiny_vit_5m_224 efficientvit_b0 efficientvit_m0
"""  # windows fit a picture of 224 x 224


def _timm() -> Iterator[Subject]:
    """Pictures: one model of each family."""
    for size, names in ((64, _SMALL), (224, _LARGE)):
        for name in names.split():
            yield Subject("timm", name, partial(_make_timm, name, size))


def _make_timm(name: str, size: int) -> Made:
    """A model of timm at a small size of pictures, or at its own size if it cannot be changed."""
    import timm

    try:
        model = timm.create_model(name, img_size=size)
    except Exception:  # many families have no such argument
        model = timm.create_model(name)
        fixed = model.default_cfg.get("fixed_input_size")
        size = model.default_cfg["input_size"][-1] if fixed or size > 64 else size
    made = _run(model, random_tensor(2, 3, size, size))
    try:
        with torch.no_grad():
            made[1]()
    except Exception:
        size = model.default_cfg["input_size"][-1]
        made = _run(model, random_tensor(2, 3, size, size))
    return made


def _torchvision() -> Iterator[Subject]:
    """Pictures and videos."""
    for name, shape in (
        ("vit_b_32", (3, 224, 224)),
        ("swin_t", (3, 64, 64)),
        ("swin_v2_t", (3, 64, 64)),
        ("maxvit_t", (3, 224, 224)),
        ("mvit_v2_s", (3, 16, 224, 224)),
        ("swin3d_t", (3, 8, 64, 64)),
        ("resnet18", (3, 64, 64)),
    ):
        yield Subject("torchvision", name, partial(_make_torchvision, name, shape))


def _make_torchvision(name: str, shape: tuple[int, ...]) -> Made:
    """A model of torchvision by its name."""
    from torchvision import models

    return _run(models.get_model(name, weights=None), random_tensor(2, *shape))


def _diffusers() -> Iterator[Subject]:
    """Denoisers of pictures and videos, by the name of their class."""
    for name in DENOISERS:
        yield Subject("diffusers", name, partial(_make_denoiser, name))


def _make_denoiser(name: str) -> Made:
    """A tiny denoiser with its inputs."""
    import diffusers

    settings, inputs = DENOISERS[name]
    return _run(getattr(diffusers, name)(**settings), **inputs(), return_dict=False)


def _torchaudio() -> Iterator[Subject]:
    """Speech."""
    yield Subject("torchaudio", "conformer", _make_conformer)
    yield Subject("torchaudio", "emformer", _make_emformer)
    yield Subject("torchaudio", "wav2vec2", _make_wav2vec2)


def _make_conformer() -> Made:
    """A conformer of two layers."""
    from torchaudio.models import Conformer

    model = Conformer(32, 4, 64, 2, 7)
    return _run(model, random_tensor(2, 23, 32), torch.tensor([23, 23]))


def _make_emformer() -> Made:
    """An emformer, which attends in segments with a memory."""
    from torchaudio.models import Emformer

    model = Emformer(32, 4, 64, 2, 4, right_context_length=1)
    return _run(model, random_tensor(2, 9, 32), torch.tensor([9, 9]))


def _make_wav2vec2() -> Made:
    """A wav2vec 2.0 of two layers."""
    from torchaudio.models import wav2vec2_model

    model = wav2vec2_model(
        extractor_mode="group_norm",
        extractor_conv_layer_config=[(32, 10, 5), (32, 3, 2)],
        extractor_conv_bias=False,
        encoder_embed_dim=32,
        encoder_projection_dropout=0.0,
        encoder_pos_conv_kernel=16,
        encoder_pos_conv_groups=4,
        encoder_num_layers=2,
        encoder_num_heads=4,
        encoder_attention_dropout=0.0,
        encoder_ff_interm_features=64,
        encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.0,
        encoder_layer_norm_first=False,
        encoder_layer_drop=0.0,
        aux_num_out=None,
    )
    return _run(model, random_tensor(2, 400))


_FLAGS: tuple[dict[str, Any], ...] = (
    {},
    {"attn_flash": True},
    {"attn_pre_talking_heads": True},
    {"attn_post_talking_heads": True},
    {"attn_sparse_topk": 4},
    {"attn_num_mem_kv": 3},
    {"attn_qk_norm": True},
    {"attn_kv_heads": 2},
    {"attn_one_kv_head": True},
    {"rotary_pos_emb": True},
    {"alibi_pos_bias": True},
    {"rel_pos_bias": True},
    {"dynamic_pos_bias": True},
    {"attn_gate_values": True},
    {"attn_head_scale": True},
    {"attn_on_attn": True},
    {"attn_sigmoid": True},
    {"attn_add_zero_kv": True},
    {"attn_selective": True},
    {"attn_softclamp_logits": True},
    {"attn_laser": True},
    {"attn_data_dependent_alibi": True},
    {"attn_hybrid_learned_mix": True},
    {"sandwich_norm": True},
    {"macaron": True},
    {"num_residual_streams": 2},
    {"shift_tokens": 1},
)


def _x_transformers() -> Iterator[Subject]:
    """A decoder with each flag, and an encoder-decoder."""
    for flags in _FLAGS:
        name = "+".join(flags) or "plain"
        yield Subject("x_transformers", name, partial(_make_x_transformer, flags))
    yield Subject("x_transformers", "encoder-decoder", _make_x_translator)


def _make_x_transformer(flags: dict[str, Any]) -> Made:
    """A decoder of two layers with some flags."""
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **flags)
    model = TransformerWrapper(num_tokens=97, max_seq_len=32, attn_layers=layers)
    return _run(model, torch.arange(22).reshape(2, 11))


def _make_x_translator() -> Made:
    """An encoder-decoder."""
    from x_transformers import Decoder, Encoder, TransformerWrapper

    encoder = TransformerWrapper(
        num_tokens=97, max_seq_len=32, attn_layers=Encoder(dim=32, depth=1, heads=4)
    )
    layers = Decoder(dim=32, depth=1, heads=4, cross_attend=True)
    decoder = TransformerWrapper(num_tokens=97, max_seq_len=32, attn_layers=layers)
    model = nn.ModuleList([encoder, decoder]).eval()
    source, target = torch.arange(22).reshape(2, 11), torch.arange(14).reshape(2, 7)

    def run() -> Any:
        return decoder(target, context=encoder(source, return_embeddings=True))

    return model, run


def _graphs() -> Iterator[Subject]:
    """Attention over the edges of one graph: a batch of one."""
    for name in LAYERS:
        make = partial(_make_graph, name)
        yield Subject("torch_geometric", name, make, batch=1, check=compare_edges)


def _make_graph(name: str) -> Made:
    """Two layers over one graph."""
    model, inputs = make_network(name)
    return _run(model, *inputs)


def _open_clip() -> Iterator[Subject]:
    """Two towers, and a captioner."""
    yield Subject("open_clip", "CLIP", partial(_make_clip, "CLIP"))
    yield Subject("open_clip", "CoCa", partial(_make_clip, "CoCa"))


def _make_clip(name: str) -> Made:
    """A model with a picture tower and a text tower of two layers."""
    import open_clip

    vision = {"image_size": 32, "layers": 2, "width": 64, "head_width": 16, "patch_size": 8}
    text = {"context_length": 11, "vocab_size": 97, "width": 32, "heads": 2, "layers": 2}
    more: dict[str, Any] = {}
    if name == "CoCa":
        vision |= {"attentional_pool": True, "output_tokens": True}
        text |= {"embed_cls": True, "output_tokens": True, "context_length": 11}
        more["multimodal_cfg"] = {**text, "layers": 2}
    kind = getattr(open_clip, name)
    model = kind(embed_dim=32, vision_cfg=vision, text_cfg=text, **more)
    return _run(model, random_tensor(2, 3, 32, 32), torch.arange(22).reshape(2, 11) + 1)


def _vit_pytorch() -> Iterator[Subject]:
    """Hand-written picture models."""
    sizes = {"image_size": 32, "patch_size": 8, "num_classes": 7, "dim": 32, "depth": 2}
    wide = {**sizes, "heads": 4, "mlp_dim": 64}
    for module, name, settings in (
        ("vit", "ViT", wide),
        ("simple_vit", "SimpleViT", wide),
        ("deepvit", "DeepViT", wide),
        ("cait", "CaiT", {**wide, "cls_depth": 1}),
        ("vit_for_small_dataset", "ViT", wide),
        ("simple_vit_with_qk_norm", "SimpleViT", wide),
        ("parallel_vit", "ViT", {**wide, "num_parallel_branches": 2}),
    ):
        make = partial(_make_vit, module, name, settings)
        yield Subject("vit_pytorch", module, make)


def _make_vit(module: str, name: str, settings: dict[str, Any]) -> Made:
    """A model of vit-pytorch."""
    from importlib import import_module

    model = getattr(import_module(f"vit_pytorch.{module}"), name)(**settings)
    return _run(model, random_tensor(2, 3, 32, 32))
