// The k largest values of each row, and the logsumexp of each row.
#include <cmath>

#include "../shared/simd.h"
#include "worker_pool.h"

namespace regard {

// Call run(row) for each row, on whichever thread takes it.
template <class Run>
void for_each_row(int64_t rows, int64_t threads, Run&& run) {
  with_workers(std::min(rows, threads), [&](WorkerPool& pool) { pool.run(rows, run); });
}

float row_logsumexp(const float* x, int64_t columns) {
  vec tops = splat(NEVER);
  int64_t c = 0;
  for (; c + WIDTH <= columns; c += WIDTH) tops = larger(tops, load_unaligned(x + c));
  float top = NEVER;
  for (int i = 0; i < WIDTH; i++) top = std::max(top, tops[i]);
  for (; c < columns; c++) top = std::max(top, x[c]);
  // Infinities cannot be subtracted; without the shift, a row of minus infinity sums to zero.
  const float shift = std::isinf(top) ? 0.0f : top;
  vec sums = {};
  for (c = 0; c + WIDTH <= columns; c += WIDTH) sums += exp2((load_unaligned(x + c) - shift) * LOG2E);
  double sum = 0.0;
  for (int i = 0; i < WIDTH; i++) sum += sums[i];
  for (; c < columns; c++) sum += exp2_of((x[c] - shift) * LOG2E);
  if (top == INFINITY && !std::isnan(sum)) return top;
  return shift + static_cast<float>(std::log(sum));
}

void logsumexp(const float* x, float* totals, int64_t rows, int64_t columns, int64_t threads) {
  for_each_row(rows, threads,
               [&](int64_t row) { totals[row] = row_logsumexp(x + row * columns, columns); });
}

// Insert a value into a falling list of `count`, dropping the last; among equals the first stays.
INLINE void insert(float value, int64_t column, float* values, int64_t* columns, int64_t count) {
  int64_t at = count - 1;
  for (; at > 0 && values[at - 1] < value; at--) {
    values[at] = values[at - 1];
    columns[at] = columns[at - 1];
  }
  values[at] = value;
  columns[at] = column;
}

// The same for a row with NaN, which counts as larger than any number; one insertion after another.
void row_topk_with_nan(const float* x, int64_t width, float* values, int64_t* columns, int64_t count) {
  auto above = [](float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; };
  int64_t kept = 0;
  for (int64_t c = 0; c < width; c++) {
    if (kept == count && !above(x[c], values[count - 1])) continue;
    int64_t at = kept < count ? kept++ : count - 1;
    for (; at > 0 && above(x[c], values[at - 1]); at--) {
      values[at] = values[at - 1];
      columns[at] = columns[at - 1];
    }
    values[at] = x[c];
    columns[at] = c;
  }
}

void row_topk(const float* x, int64_t width, float* values, int64_t* columns, int64_t count) {
  std::fill(values, values + count, NEVER);
  ivec nan = {};
  auto consider = [&](int64_t c) {
    if (x[c] > values[count - 1]) insert(x[c], c, values, columns, count);
  };
  int64_t c = 0;
  // Four vectors at a time: most hold nothing above the smallest value kept so far.
  for (; c + 4 * WIDTH <= width; c += 4 * WIDTH) {
    vec top = load_unaligned(x + c);
    nan |= top != top;
    for (int i = 1; i < 4; i++) {
      const vec next = load_unaligned(x + c + i * WIDTH);
      nan |= next != next;
      top = larger(top, next);
    }
    if (!any_above(top, splat(values[count - 1]))) continue;
    for (int64_t i = c; i < c + 4 * WIDTH; i++) consider(i);
  }
  bool any_nan = false;
  for (int i = 0; i < WIDTH; i++) any_nan |= nan[i] != 0;
  for (; c < width; c++) {
    any_nan |= std::isnan(x[c]);
    consider(c);
  }
  if (any_nan) return row_topk_with_nan(x, width, values, columns, count);
  // Rows with fewer than `count` finite values: the rest are the first columns of minus infinity.
  c = 0;
  for (int64_t i = 0; i < count; i++) {
    if (values[i] != NEVER) continue;
    while (c + 1 < width && x[c] != NEVER) c++;
    columns[i] = c++;
  }
}

void topk(const float* x, float* values, int64_t* columns, int64_t rows, int64_t width,
          int64_t count, int64_t threads) {
  for_each_row(rows, threads, [&](int64_t row) {
    row_topk(x + row * width, width, values + row * count, columns + row * count, count);
  });
}

}  // namespace regard
