// Reads tensors of any dtype and layout into blocks of float32, the form that the products take.
#pragma once
#include <cstdlib>
#include <memory>
#include <new>

#include "call.h"
#include "../shared/simd.h"

namespace regard {

constexpr int ROWS = 48;     // queries of a block: a multiple of every vector width
constexpr int COLUMNS = 128; // keys of a block: its scores stay in the L1 cache
constexpr int TILE = 8;      // keys of a tile; the maximum and the sum of each tile are kept
constexpr int TILES = COLUMNS / TILE;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
template <class T = float>
using Buffer = std::unique_ptr<T[], Free>;

template <class T = float>
Buffer<T> buffer(size_t count) {
  const size_t bytes = (count * sizeof(T) + 63) / 64 * 64 + 64;
  void* p = std::aligned_alloc(64, bytes);
  if (!p) throw std::bad_alloc();
  return Buffer<T>(static_cast<T*>(p));
}

INLINE int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

INLINE float from_bfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float x;
  memcpy(&x, &wide, 4);
  return x;
}

INLINE uint16_t to_bfloat16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;  // rounding must not turn NaN into infinity
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

INLINE float from_float16(uint16_t bits) {
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  // After the shift the exponent is 112 too small; infinities and NaN need the largest exponent.
  uint32_t wide = rest << 13;
  float x;
  memcpy(&x, &wide, 4);
  x *= 0x1p112f;
  if (rest >= 0x7c00) {
    wide = (rest << 13) | 0x7f800000u;
    memcpy(&x, &wide, 4);
  }
  memcpy(&wide, &x, 4);
  wide |= sign;
  memcpy(&x, &wide, 4);
  return x;
#endif
}

INLINE uint16_t to_float16(float x) {
#if defined(__F16C__)
  return static_cast<uint16_t>(_cvtss_sh(x, 0));
#else
  uint32_t bits;
  memcpy(&bits, &x, 4);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return sign | 0x7e00;
  if (bits >= 0x477ff000u) return sign | 0x7c00;
  if (bits < 0x38800000u) {  // subnormal in float16: adding 0.5 rounds to their last bit
    float small;
    memcpy(&small, &bits, 4);
    small += 0.5f;
    memcpy(&bits, &small, 4);
    return sign | static_cast<uint16_t>(bits - 0x3f000000u);
  }
  bits += 0xc8000fffu + ((bits >> 13) & 1);
  return sign | static_cast<uint16_t>(bits >> 13);
#endif
}

INLINE float element(const void* data, int32_t kind, int64_t at) {
  if (kind == FLOAT32) return static_cast<const float*>(data)[at];
  const uint16_t bits = static_cast<const uint16_t*>(data)[at];
  return kind == BFLOAT16 ? from_bfloat16(bits) : from_float16(bits);
}

INLINE void load_row(const void* data, int32_t kind, int64_t at, int64_t count, float* out) {
  if (kind == FLOAT32) {
    memcpy(out, static_cast<const float*>(data) + at, static_cast<size_t>(count) * 4);
  } else if (kind == BFLOAT16) {
    const uint16_t* p = static_cast<const uint16_t*>(data) + at;
    for (int64_t i = 0; i < count; i++) out[i] = from_bfloat16(p[i]);
  } else {
    const uint16_t* p = static_cast<const uint16_t*>(data) + at;
    for (int64_t i = 0; i < count; i++) out[i] = from_float16(p[i]);
  }
}

// A block of rows as float32 with `stride` between rows: the tensor's own memory if it has the right
// form, else a copy padded with zeros to `padded_rows` x `padded_dim`.
struct BlockRows {
  const float* data;
  int64_t stride;
};

INLINE BlockRows load_rows(const Matrix& m, int32_t kind, int64_t base, int64_t first, int64_t count,
                    int64_t padded_rows, int64_t dim, int64_t padded_dim, float* scratch) {
  // Rows with gaps between them fall into few sets of the L1 cache and evict each other: copy them.
  if (kind == FLOAT32 && count == padded_rows && dim == padded_dim && m.strides[2] == dim)
    return {static_cast<const float*>(m.data) + base + first * dim, dim};
  for (int64_t r = 0; r < count; r++) {
    load_row(m.data, kind, base + (first + r) * m.strides[2], dim, scratch + r * padded_dim);
    for (int64_t d = dim; d < padded_dim; d++) scratch[r * padded_dim + d] = 0.0f;
  }
  for (int64_t i = count * padded_dim; i < padded_rows * padded_dim; i++) scratch[i] = 0.0f;
  return {scratch, padded_dim};
}

// The scaled queries of a block, transposed so that queries lie along the vectors: out[dim][ROWS].
INLINE void pack_queries(const Call& call, int64_t b, int64_t h, int64_t first, int count,
                         float scale, float* row, float* out) {
  const int64_t dim = call.dim, wide = round_up(dim, 8);
  const int64_t* strides = call.query.strides;
  for (int q = 0; q < ROWS; q += 8) {
    for (int i = 0; i < 8; i++) {
      float* own = row + i * wide;
      if (q + i < count) {
        const int64_t at = b * strides[0] + h * strides[1] + (first + q + i) * strides[2];
        load_row(call.query.data, call.kind, at, dim, own);
        for (int64_t d = 0; d < dim; d++) own[d] *= scale;
        for (int64_t d = dim; d < wide; d++) own[d] = 0.0f;
      } else {
        memset(own, 0, static_cast<size_t>(wide) * 4);
      }
    }
    for (int64_t d = 0; d < wide; d += 8) {
      oct patch[8];
      for (int i = 0; i < 8; i++) patch[i] = load8(row + i * wide + d);
      transpose8(patch);
      for (int i = 0; i < 8; i++) store8(out + (d + i) * ROWS + q, patch[i]);
    }
  }
}

}  // namespace regard
