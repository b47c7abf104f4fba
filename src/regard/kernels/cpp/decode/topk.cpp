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
  vec sums = {};
  for (c = 0; c + WIDTH <= columns; c += WIDTH) sums += exp2((load_unaligned(x + c) - top) * LOG2E);
  double sum = 0.0;
  for (int i = 0; i < WIDTH; i++) sum += sums[i];
  for (; c < columns; c++) sum += exp2_of((x[c] - top) * LOG2E);
  return top + static_cast<float>(std::log(sum));
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

void row_topk(const float* x, int64_t width, float* values, int64_t* columns, int64_t count) {
  std::fill(values, values + count, NEVER);
  auto consider = [&](int64_t c) {
    if (x[c] > values[count - 1]) insert(x[c], c, values, columns, count);
  };
  int64_t c = 0;
  // Four vectors at a time: most hold nothing above the smallest value kept so far.
  for (; c + 4 * WIDTH <= width; c += 4 * WIDTH) {
    vec top = load_unaligned(x + c);
    for (int i = 1; i < 4; i++) top = larger(top, load_unaligned(x + c + i * WIDTH));
    if (!any_above(top, splat(values[count - 1]))) continue;
    for (int64_t i = c; i < c + 4 * WIDTH; i++) consider(i);
  }
  for (; c < width; c++) consider(c);
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
