// Few rows times a large matrix: each weight is read from memory once, whatever the rows.
#pragma once
#include "../shared/simd.h"
#include "worker_pool.h"

namespace regard {

// y = x w^T + bias; all are rows without gaps, w of `outs` rows, and bias may be missing.
struct Few {
  const float *x, *w, *bias;
  float* y;
  int64_t rows, dim, outs, threads;
};

constexpr int SOME = 5;                      // rows of x whose sums stay in registers
constexpr int ROWS_OF_W = WIDTH > 8 ? 4 : 2;  // beside so many of w
constexpr int64_t BLOCK = 16;                // rows of w that stay near while x passes
constexpr int64_t PART = 1 << 17;            // bytes of w that a thread takes at once

INLINE vec load_any(const float* p) { return (vec)(*reinterpret_cast<const loose_vec*>(p)); }

// The sum of the lanes, by quarters: one after the other would take as long as the products.
INLINE float lanes_of(vec x) {
  typedef float quad __attribute__((vector_size(16), may_alias));
  const quad* quads = reinterpret_cast<const quad*>(&x);
  quad sum = quads[0];
  for (int i = 1; i < WIDTH / 4; i++) sum += quads[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <int XS, int WS>
INLINE void multiply_tile(const Few& few, int64_t first, int64_t out) {
  const int64_t dim = few.dim;
  const float *x = few.x + first * dim, *w = few.w + out * dim;
  vec sums[WS][XS] = {};
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH) {
    vec left[XS];
    for (int i = 0; i < XS; i++) left[i] = load_any(x + i * dim + d);
    for (int j = 0; j < WS; j++) {
      const vec right = load_any(w + j * dim + d);
      // The rows that follow are asked for in time; past the end it does no harm.
      __builtin_prefetch(w + (j + WS) * dim + d);
      for (int i = 0; i < XS; i++) sums[j][i] += left[i] * right;
    }
  }
  for (int i = 0; i < XS; i++)
    for (int j = 0; j < WS; j++) {
      float sum = lanes_of(sums[j][i]) + (few.bias ? few.bias[out + j] : 0.0f);
      for (int64_t t = d; t < dim; t++) sum += x[i * dim + t] * w[j * dim + t];
      few.y[(first + i) * few.outs + out + j] = sum;
    }
}

template <int XS>
void multiply_some(const Few& few, int64_t first, int64_t from, int64_t to) {
  int64_t out = from;
  for (; out + ROWS_OF_W <= to; out += ROWS_OF_W) multiply_tile<XS, ROWS_OF_W>(few, first, out);
  for (; out < to; out++) multiply_tile<XS, 1>(few, first, out);
}

void multiply_block(const Few& few, int64_t from, int64_t to) {
  typedef void (*Some)(const Few&, int64_t, int64_t, int64_t);
  static const Some some[SOME] = {multiply_some<1>, multiply_some<2>, multiply_some<3>,
                                  multiply_some<4>, multiply_some<5>};
  const int64_t groups = (few.rows + SOME - 1) / SOME;
  for (int64_t group = 0; group < groups; group++) {
    const int64_t first = few.rows * group / groups, end = few.rows * (group + 1) / groups;
    some[end - first - 1](few, first, from, to);
  }
}

// The product in parts for the threads of a team, each large enough to be worth a ticket.
void multiply(const Few& few, Team& team) {
  const int64_t blocks = (few.outs + BLOCK - 1) / BLOCK;
  const int64_t bytes = BLOCK * few.dim * static_cast<int64_t>(sizeof(float));
  const int64_t step = std::max<int64_t>(1, std::min(PART / bytes, blocks / team.threads()));
  team.run((blocks + step - 1) / step, [&](int64_t part) {
    const int64_t end = std::min(few.outs, (part + 1) * step * BLOCK);
    for (int64_t from = part * step * BLOCK; from < end; from += BLOCK)
      multiply_block(few, from, std::min(end, from + BLOCK));
  });
}

void multiply(const Few& few) {
  with_team(few.threads, [&](Team& team) { multiply(few, team); });
}

}  // namespace regard
