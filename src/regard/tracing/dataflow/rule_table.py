"""Which rule each function of torch follows: how it passes origins on to its result.

The table is by the name of the function. Functions that are not in it follow the rule "other",
which keeps the stream and gives up on axes and stages unless the shapes say more.
"""

from collections.abc import Callable
from typing import Any

from regard.tracing.dataflow.axis_moves import LAYOUTS

# results that are no tensors, or tensors whose numbers come from no stream
_NOTHING = """
    all allclose any arange argmax argmin argsort as_tensor backward bernoulli bincount bool
    data_ptr dim element_size empty empty_like eq equal eye full full_like ge
    gt int is_complex is_contiguous is_floating_point is_inference is_nonzero is_same_size
    is_signed is_storage isfinite isin isinf isnan item le logical_and logical_not logical_or long
    lt manual_seed multinomial ndimension ne nelement new_empty new_full new_ones new_tensor
    new_zeros nonzero normal numel ones ones_like rand rand_like randint randn randn_like
    randperm register_hook result_type scalar_tensor searchsorted size storage_offset stride tensor
    tolist tril_indices triu_indices untyped_storage zeros zeros_like
    __bool__ __contains__ __eq__ __format__ __ge__ __gt__ __hash__ __int__ __float__ __index__
    __invert__ __and__ __or__ __le__ __len__ __lt__ __ne__ __repr__
"""
# the same numbers, perhaps with dropout
_CARRY = """
    bfloat16 clone contiguous cpu cuda data detach detach_ double dropout dropout_
    alpha_dropout feature_dropout float half requires_grad_ to type type_as _to_copy alias
"""
# each number by itself, or normalised with its neighbours on the last axis
_ELEMENTWISE = """
    abs abs_ acos arccos asin atan batch_norm celu clamp clamp_ clamp_max clamp_max_ clamp_min
    clamp_min_ clip elu erf
    expm1 gelu group_norm hardswish hardtanh instance_norm layer_norm leaky_relu
    local_response_norm log log1p log_ logsigmoid mish nan_to_num nan_to_num_ native_layer_norm neg
    neg_ prelu reciprocal relu relu6 relu_ rms_norm round rsqrt selu sigmoid
    sigmoid_ sign silu sin cos softplus softsign sqrt square tanh tanh_ tril tril_ triu triu_
    masked_fill masked_fill_ special_expit __neg__ fill_diagonal_
"""
# two tensors combined number by number, broadcast
_COMBINE = """
    add add_ addcdiv addcmul div div_ divide fmod lerp maximum minimum mul mul_ multiply
    remainder rsub sub sub_ subtract true_divide true_divide_ where
    __add__ __iadd__ __imul__ __isub__ __itruediv__ __mul__ __radd__ __rdiv__ __rmul__ __rsub__
    __rtruediv__ __sub__ __truediv__ __div__ __idiv__
"""
_RULES: dict[str, str] = {
    "carry": _CARRY,
    "elementwise": _ELEMENTWISE,
    "combine": _COMBINE,
    "linear": "linear",
    "reduce": """sum mean max min amax amin logsumexp special_logsumexp prod std var norm median
        nansum""",
    "product": """matmul bmm mm mv einsum baddbmm baddbmm_ addmm addmm_ addbmm addbmm_ cdist
        tensordot inner linalg_matmul linalg_multi_dot __matmul__ __rmatmul__ __imatmul__""",
    "compare": "cosine_similarity pairwise_distance linalg_vecdot",
    "bilinear": "bilinear",
    "softmax": "softmax _softmax softmin gumbel_softmax special_softmax",
    "log_softmax": "log_softmax _log_softmax special_log_softmax",
    "exp": "exp exp_ exp2 exp2_ special_exp2",
    "power": "pow pow_ float_power __pow__ __rpow__",
    "normalize": "normalize",
    "embed": "embedding",
    "conv": "conv1d conv2d conv3d convolution",
    "pool": """max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_max_pool2d adaptive_max_pool1d interpolate upsample""",
    "scatter_weights": "scatter_add scatter_add_",
    "pool_segments": "scatter_reduce scatter_reduce_",
    "sample": "grid_sample grid_sampler grid_sampler_2d",
    "iterate": "__iter__",
    "recur": "gru lstm rnn_tanh rnn_relu gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell",
    "pad": "pad",
    "join": "cat concat concatenate",
    "stack": "stack hstack vstack",
    "assign": "__setitem__ copy_ index_put_ index_copy_ index_fill_ index_add_",
    "merge": "masked_scatter masked_scatter_",
    "index_select": "index_select",
    "rearrange": """gather roll flip sort take_along_dim as_strided unfold topk scatter scatter_
        masked_select""",
    "cumulate": "cumsum cumsum_ logcumsumexp",
    "sparse": "_sparse_softmax _sparse_log_softmax _sparse_mm smm hspmm sparse_sampled_addmm",
    "fourier": "fft_fft fft_fft2 fft_fftn fft_rfft fft_rfft2 fft_rfftn",
    "leave_torch": "numpy __array__",
    "pad_packed": "_pad_packed_sequence",
    "forget_axes": "squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_ resize_ set_",
}
_GETTERS = {
    **dict.fromkeys(("mT", "T", "mH", "H"), "layout"),
    **dict.fromkeys(("data", "real", "imag"), "carry"),
}

BY_NAME: dict[str, str] = {
    **dict.fromkeys(_NOTHING.split(), "nothing"),
    **{name: rule for rule, names in _RULES.items() for name in names.split()},
    **dict.fromkeys(LAYOUTS, "layout"),
    **dict.fromkeys(("split", "split_with_sizes"), "split"),
}

Rule = tuple[str, str]  # the name of the rule, and the name of the function


class _RuleTable(dict[Any, Rule]):
    """The rules of functions; that of one which is not in the table yet is found by its name."""

    def __missing__(self, function: Any) -> Rule:
        rule = _find_rule(function)
        if _belongs_to_torch(function):  # a caller's functions may be freed, so they are not held
            self[function] = rule
        return rule


_cached = _RuleTable()
# The rule of a function, and its name. It is asked for at every call: a method of a dictionary
# answers without a frame of Python.
rule_of: Callable[[Any], Rule] = _cached.__getitem__


def _find_rule(function: Any) -> Rule:
    """`rule_of` without the table."""
    name = str(getattr(function, "__name__", ""))
    owner = getattr(function, "__self__", None)
    if name in ("__get__", "__set__", "__delete__"):
        name = str(getattr(owner, "__name__", ""))
        return _GETTERS.get(name, "nothing"), name
    if not _belongs_to_torch(function):
        return "other", name
    if namespace(function) not in (None, "aten", "prims", "prim"):
        return "opaque", f"{namespace(function)}::{name}"
    name = name.partition(".")[0]
    # fused functions that attend are taps, or nothing can be seen of what they do
    fused = "attention" in name or name == "_transformer_encoder_layer_fwd"
    return BY_NAME.get(name, "opaque" if fused else "other"), name


def namespace(function: Any) -> str | None:
    """The namespace of torch.ops that holds an operation; None for torch's plain functions."""
    module = str(getattr(function, "__module__", None) or "")
    return module.removeprefix("torch._ops.") if module.startswith("torch._ops.") else None


def _belongs_to_torch(function: Any) -> bool:
    module = getattr(function, "__module__", None)
    return module is None or str(module).partition(".")[0] == "torch"
