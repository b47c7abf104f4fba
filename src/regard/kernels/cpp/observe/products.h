// The two products of attention, with queries along the vectors.
// Keys and values are read one number at a time, in the layout that they have, and broadcast to a
// vector; only the queries are transposed beforehand.
#pragma once
#include "../shared/simd.h"
#include "blocks.h"

namespace regard {

// scores[KEYS][C vectors] = keys . queries
template <int C>
INLINE void score_tile(const float* key, int64_t stride, const float* query, int64_t dim,
                       float* out) {
  vec sum[KEYS][C] = {};
  for (int64_t d = 0; d < dim; d++) {
    vec q[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; c++) q[c] = load(query + d * ROWS + c * WIDTH);
#pragma GCC unroll 8
    for (int k = 0; k < KEYS; k++) {
      const vec one = splat(key[k * stride + d]);
#pragma GCC unroll 8
      for (int c = 0; c < C; c++) sum[k][c] += one * q[c];
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < KEYS; k++)
#pragma GCC unroll 8
    for (int c = 0; c < C; c++) store(out + k * ROWS + c * WIDTH, sum[k][c]);
}

// context[KEYS values][C vectors] = context * fade + values . weights
template <int C>
INLINE void context_tile(const float* value, int64_t stride, const float* weight, int64_t keys,
                         const float* fade, float* out) {
  vec sum[KEYS][C];
#pragma GCC unroll 8
  for (int v = 0; v < KEYS; v++)
#pragma GCC unroll 8
    for (int c = 0; c < C; c++)
      sum[v][c] = load(out + v * ROWS + c * WIDTH) * load(fade + c * WIDTH);
  for (int64_t k = 0; k < keys; k++) {
    vec w[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; c++) w[c] = load(weight + k * ROWS + c * WIDTH);
#pragma GCC unroll 8
    for (int v = 0; v < KEYS; v++) {
      const vec one = splat(value[k * stride + v]);
#pragma GCC unroll 8
      for (int c = 0; c < C; c++) sum[v][c] += one * w[c];
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < KEYS; v++)
#pragma GCC unroll 8
    for (int c = 0; c < C; c++) store(out + v * ROWS + c * WIDTH, sum[v][c]);
}

// The two products for C vectors of queries; `keys` and the width of values are multiples of TILE.
template <int C>
INLINE void score_columns(const BlockRows& key, const float* query, int64_t dim, int64_t keys,
                          float* out) {
  for (int64_t k = 0; k < keys; k += KEYS)
    score_tile<C>(key.data + k * key.stride, key.stride, query, dim, out + k * ROWS);
}

template <int C>
INLINE void context_columns(const BlockRows& value, const float* weight, int64_t dim, int64_t keys,
                            const float* fade, float* out) {
  for (int64_t v = 0; v < dim; v += KEYS)
    context_tile<C>(value.data + v, value.stride, weight, keys, fade, out + v * ROWS);
}

static void scores(const BlockRows& key, const float* query, int64_t dim, int64_t keys, int vectors,
                   float* out) {
  int c = 0;
  for (; c + VECTORS <= vectors; c += VECTORS)
    score_columns<VECTORS>(key, query + c * WIDTH, dim, keys, out + c * WIDTH);
  if (vectors - c == 2) score_columns<2>(key, query + c * WIDTH, dim, keys, out + c * WIDTH);
  if (vectors - c == 1) score_columns<1>(key, query + c * WIDTH, dim, keys, out + c * WIDTH);
}

static void contexts(const BlockRows& value, const float* weight, int64_t dim, int64_t keys,
                     int vectors, const float* fade, float* out) {
  int c = 0;
  for (; c + VECTORS <= vectors; c += VECTORS)
    context_columns<VECTORS>(value, weight + c * WIDTH, dim, keys, fade + c * WIDTH,
                             out + c * WIDTH);
  if (vectors - c == 2)
    context_columns<2>(value, weight + c * WIDTH, dim, keys, fade + c * WIDTH, out + c * WIDTH);
  if (vectors - c == 1)
    context_columns<1>(value, weight + c * WIDTH, dim, keys, fade + c * WIDTH, out + c * WIDTH);
}

}  // namespace regard
