// x W^T + b for a few rows of x and a large matrix W: each weight is read from memory once, whatever
// the number of rows.
#pragma once
#include "../shared/simd.h"
#include "worker_pool.h"

namespace regard {

// y = x w^T + bias. All matrices are contiguous, w has `outs` rows, and bias may be null.
struct Matvec {
  const float *x, *w, *bias;
  float* y;
  int64_t rows, dim, outs, threads;
};

constexpr int MAX_X_ROWS = 5;              // rows of x whose sums stay in registers ...
constexpr int W_ROWS = WIDTH > 8 ? 4 : 2;  // ... beside this many rows of w
constexpr int64_t W_BLOCK = 16;            // rows of w that stay in the cache while x passes
constexpr int64_t PART_BYTES = 1 << 17;    // bytes of w that a thread takes at a time

// XS rows of x from `first` on, times WS rows of w from `out` on.
template <int XS, int WS>
INLINE void multiply_tile(const Matvec& job, int64_t first, int64_t out) {
  const int64_t dim = job.dim;
  const float *x = job.x + first * dim, *w = job.w + out * dim;
  vec sums[WS][XS] = {};
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH) {
    vec left[XS];
    for (int i = 0; i < XS; i++) left[i] = load_unaligned(x + i * dim + d);
    for (int j = 0; j < WS; j++) {
      const vec right = load_unaligned(w + j * dim + d);
      // Prefetch the next rows of w; an address past the end does no harm.
      __builtin_prefetch(w + (j + WS) * dim + d);
      for (int i = 0; i < XS; i++) sums[j][i] += left[i] * right;
    }
  }
  for (int i = 0; i < XS; i++)
    for (int j = 0; j < WS; j++) {
      float sum = sum_lanes(sums[j][i]) + (job.bias ? job.bias[out + j] : 0.0f);
      for (int64_t t = d; t < dim; t++) sum += x[i * dim + t] * w[j * dim + t];
      job.y[(first + i) * job.outs + out + j] = sum;
    }
}

template <int XS>
void multiply_rows(const Matvec& job, int64_t first, int64_t from, int64_t to) {
  int64_t out = from;
  for (; out + W_ROWS <= to; out += W_ROWS) multiply_tile<XS, W_ROWS>(job, first, out);
  for (; out < to; out++) multiply_tile<XS, 1>(job, first, out);
}

void multiply_block(const Matvec& job, int64_t from, int64_t to) {
  typedef void (*RowsFunction)(const Matvec&, int64_t, int64_t, int64_t);
  static const RowsFunction by_count[MAX_X_ROWS] = {
      multiply_rows<1>, multiply_rows<2>, multiply_rows<3>, multiply_rows<4>, multiply_rows<5>};
  // Groups of nearly equal size: 6 rows are 3 + 3, not 5 + 1.
  const int64_t groups = (job.rows + MAX_X_ROWS - 1) / MAX_X_ROWS;
  for (int64_t group = 0; group < groups; group++) {
    const int64_t first = job.rows * group / groups, end = job.rows * (group + 1) / groups;
    by_count[end - first - 1](job, first, from, to);
  }
}

// The product, cut into parts that are large enough to be worth handing to another thread.
void matvec(const Matvec& job, WorkerPool& pool) {
  const int64_t blocks = (job.outs + W_BLOCK - 1) / W_BLOCK;
  const int64_t bytes = std::max<int64_t>(1, W_BLOCK * job.dim * static_cast<int64_t>(sizeof(float)));
  const int64_t step = std::max<int64_t>(1, std::min(PART_BYTES / bytes, blocks / pool.threads()));
  pool.run((blocks + step - 1) / step, [&](int64_t part) {
    const int64_t end = std::min(job.outs, (part + 1) * step * W_BLOCK);
    for (int64_t from = part * step * W_BLOCK; from < end; from += W_BLOCK)
      multiply_block(job, from, std::min(end, from + W_BLOCK));
  });
}

void matvec(const Matvec& job) {
  with_workers(job.threads, [&](WorkerPool& pool) { matvec(job, pool); });
}

}  // namespace regard
