// The largest numbers of each row, and the logarithm of the sum of its exponentials.
#include <cmath>

#include "../shared/simd.h"
#include "worker_pool.h"

namespace regard {

INLINE vec load_here(const float* p) { return (vec)(*reinterpret_cast<const loose_vec*>(p)); }

// Each row by itself, on whichever thread takes it.
template <class One>
void each_row(int64_t rows, int64_t threads, One&& one) {
  with_team(std::min(rows, threads), [&](Team& team) { team.run(rows, one); });
}

float log_total(const float* x, int64_t columns) {
  vec tops = splat(NEVER);
  int64_t c = 0;
  for (; c + WIDTH <= columns; c += WIDTH) tops = larger(tops, load_here(x + c));
  float top = NEVER;
  for (int i = 0; i < WIDTH; i++) top = std::max(top, tops[i]);
  for (; c < columns; c++) top = std::max(top, x[c]);
  vec sums = {};
  for (c = 0; c + WIDTH <= columns; c += WIDTH) sums += exp2((load_here(x + c) - top) * LOG2E);
  double sum = 0.0;
  for (int i = 0; i < WIDTH; i++) sum += sums[i];
  for (; c < columns; c++) sum += exp2_of((x[c] - top) * LOG2E);
  return top + static_cast<float>(std::log(sum));
}

void log_totals(const float* x, float* totals, int64_t rows, int64_t columns, int64_t threads) {
  each_row(rows, threads, [&](int64_t row) { totals[row] = log_total(x + row * columns, columns); });
}

// A new number finds its place among those found before, from the last on; of equals the first.
INLINE void insert(float number, int64_t place, float* values, int64_t* places, int64_t count) {
  int64_t at = count - 1;
  for (; at > 0 && values[at - 1] < number; at--) {
    values[at] = values[at - 1];
    places[at] = places[at - 1];
  }
  values[at] = number;
  places[at] = place;
}

void largest_of(const float* x, int64_t columns, float* values, int64_t* places, int64_t count) {
  std::fill(values, values + count, NEVER);
  auto look = [&](int64_t c) {
    if (x[c] > values[count - 1]) insert(x[c], c, values, places, count);
  };
  int64_t c = 0;
  for (; c + 4 * WIDTH <= columns; c += 4 * WIDTH) {
    vec top = load_here(x + c);
    for (int i = 1; i < 4; i++) top = larger(top, load_here(x + c + i * WIDTH));
    if (!any_above(top, splat(values[count - 1]))) continue;
    for (int64_t i = c; i < c + 4 * WIDTH; i++) look(i);
  }
  for (; c < columns; c++) look(c);
  // Where there is nothing left but minus infinity, the first of these.
  c = 0;
  for (int64_t i = 0; i < count; i++) {
    if (values[i] != NEVER) continue;
    while (c + 1 < columns && x[c] != NEVER) c++;
    places[i] = c++;
  }
}

void largest(const float* x, float* values, int64_t* places, int64_t rows, int64_t columns,
             int64_t count, int64_t threads) {
  each_row(rows, threads, [&](int64_t row) {
    largest_of(x + row * columns, columns, values + row * count, places + row * count, count);
  });
}

}  // namespace regard
