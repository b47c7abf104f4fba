"""Fast decoding on the CPU: what producing one token needs, in native code.

A decoder that produces one token at a time multiplies very few rows (one per sentence or beam)
with large matrices. The time is then that of reading the matrices from memory once, and of calling
torch a hundred times per token. These modules remove both costs:

    matvec         x W^T + b for up to 16 rows, each weight read once
    int8           the same for a matrix of 8-bit integers, a quarter of the bytes
    topk           the k largest logits of each row, and their logsumexp
    decoder_step   one token of every row through all layers of a decoder in a single call

Each `native_...` function has a `supports_...` beside it that is True where the C++ library is
built and takes such tensors; callers fall back to torch elsewhere:

    >>> import torch
    >>> from regard.kernels.decode.matvec import native_matvec, supports_matvec
    >>> x, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    >>> (native_matvec(x, weight, None) if supports_matvec(weight) else x @ weight.T).tolist()
    [[11.0, 17.0, 23.0]]

`attention.projection` calls matvec; it and `attention.quantised` call int8; `models.generation`
calls topk, and the native decoder of `models.transformer` calls decoder_step. Nothing here knows a
model: sizes, strides and pointers come in, numbers go out. The C++ sources are in
`kernels/cpp/decode`. `has_plain_memory` says whether native code may read a tensor at all.
"""

from regard.kernels.memory import has_plain_memory

__all__ = ["has_plain_memory"]
