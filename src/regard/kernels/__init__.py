"""Computations that need speed or exactness beyond what torch offers, each with a plain fallback.

    observe/      attention that also returns statistics of its weights in the same pass
    decode/       fast decoding of one token: matrix-vector products, top-k, int8, decoder steps
    pair_sums     the sums over hidden units that additive attention scores need
    library       finds and loads the compiled library that fits this processor
    memory        whether native code may use the addresses of a tensor
    layout        the structures that Python and C++ exchange, field by field
    cpp/          the C++ sources, compiled when the package is built (hatch_build.py)

`observe` and `decode` do not import each other; both use `library`, `memory` and `layout`. The one
library `_native_avx512.so`, `_native_avx2.so` or `_native_plain.so` beside this file holds all
native functions; `library` picks the fastest that the processor runs. Without a compiler there is
none, and every caller takes its portable path: the same results within rounding, more slowly.
REGARD_NATIVE=0 forces the portable paths, any other value is a folder to load the library from.

Worked example. `observe(query, key, value)` on float32 tensors of 2 heads, 5 queries and 5 keys:
`observe.call.Call` checks shapes and dtypes; `observe.choice.implementation_for` asks whether the
native implementation takes float32 on the CPU (yes) and whether `library()` found a library (yes);
then `observe.native` allocates the 2 x 5 rows of every statistic, fills a `layout.NativeCall` with
pointers, sizes and strides, and calls `regard_observe` in slices of 0.2 seconds, so that Ctrl-C is
heard between two slices. The C++ side works on blocks of 48 queries x 128 keys, on torch's own
threads, and writes into the allocated tensors. With float64 tensors the answer to the first
question is no, and `observe.portable` computes the same numbers with blocked torch operations.

Adding an implementation is described in docs/howto/add-kernel.md.
"""
