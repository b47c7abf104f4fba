// Sums over hidden units of r = 1 / (1 + a b) for every pair of a query and a key, and their slopes:
// what additive scores need, without holding query x key x hidden numbers.
#include "shared/parallel.h"
#include "shared/simd.h"

namespace regard {

// One side of each pair comes first: its rows are the tasks. The gradient has a stride for either
// side, so that queries and keys may change places.
struct Pairs {
  const float *first, *second, *v, *gradient;
  float *scores, *to_first, *to_v;
  int64_t rows, firsts, seconds, hidden;
  int64_t gradient_strides[3];
  int64_t threads;
};

INLINE float sum_of(vec x) {
  float sum = 0.0f;
  for (int i = 0; i < WIDTH; i++) sum += x[i];
  return sum;
}

// scores[j] = sum over hidden of v / (1 + a b_j), for keys j .. j + COUNT.
template <int COUNT>
INLINE void score_some(const Pairs& pairs, const float* a, const float* b, float* scores) {
  const int64_t hidden = pairs.hidden;
  vec sums[COUNT] = {};
  int64_t h = 0;
  for (; h + WIDTH <= hidden; h += WIDTH) {
    const vec left = load_unaligned(a + h), v = load_unaligned(pairs.v + h);
    for (int j = 0; j < COUNT; j++) sums[j] += v / (left * load_unaligned(b + j * hidden + h) + 1.0f);
  }
  for (int j = 0; j < COUNT; j++) {
    float sum = sum_of(sums[j]);
    for (int64_t t = h; t < hidden; t++) sum += pairs.v[t] / (1.0f + a[t] * b[j * hidden + t]);
    scores[j] = sum;
  }
}

void score_row(const Pairs& pairs, int64_t task) {
  const int64_t row = task / pairs.firsts;
  const float* a = pairs.first + task * pairs.hidden;
  const float* b = pairs.second + row * pairs.seconds * pairs.hidden;
  float* scores = pairs.scores + task * pairs.seconds;
  int64_t j = 0;
  for (; j + 4 <= pairs.seconds; j += 4)
    score_some<4>(pairs, a, b + j * pairs.hidden, scores + j);
  for (; j < pairs.seconds; j++) score_some<1>(pairs, a, b + j * pairs.hidden, scores + j);
}

// to_first[h] = sum over j of g_j r (1 - r), to_v[h] = sum over j of g_j r, at COUNT vectors of h.
template <int COUNT>
INLINE void slope_some(const Pairs& pairs, const float* a, const float* b, const float* g,
                       float* to_first, float* to_v) {
  vec left[COUNT], bent[COUNT] = {}, plain[COUNT] = {};
  for (int i = 0; i < COUNT; i++) left[i] = load_unaligned(a + i * WIDTH);
  for (int64_t j = 0; j < pairs.seconds; j++) {
    const float weight = g[j * pairs.gradient_strides[2]];
    for (int i = 0; i < COUNT; i++) {
      const vec r = 1.0f / (left[i] * load_unaligned(b + j * pairs.hidden + i * WIDTH) + 1.0f);
      plain[i] += r * weight;
      bent[i] += (r - r * r) * weight;
    }
  }
  for (int i = 0; i < COUNT; i++) {
    *reinterpret_cast<loose_vec*>(to_first + i * WIDTH) = (loose_vec)bent[i];
    if (to_v) *reinterpret_cast<loose_vec*>(to_v + i * WIDTH) = (loose_vec)plain[i];
  }
}

INLINE void slope_one(const Pairs& pairs, float a, const float* b, const float* g, float* to_first,
                      float* to_v) {
  float bent = 0.0f, plain = 0.0f;
  for (int64_t j = 0; j < pairs.seconds; j++) {
    const float r = 1.0f / (1.0f + a * b[j * pairs.hidden]);
    plain += r * g[j * pairs.gradient_strides[2]];
    bent += (r - r * r) * g[j * pairs.gradient_strides[2]];
  }
  *to_first = bent;
  if (to_v) *to_v = plain;
}

void slope_row(const Pairs& pairs, int64_t task) {
  const int64_t row = task / pairs.firsts, i = task % pairs.firsts, hidden = pairs.hidden;
  const float* a = pairs.first + task * hidden;
  const float* b = pairs.second + row * pairs.seconds * hidden;
  const float* g =
      pairs.gradient + row * pairs.gradient_strides[0] + i * pairs.gradient_strides[1];
  float* to_first = pairs.to_first + task * hidden;
  float* to_v = pairs.to_v ? pairs.to_v + task * hidden : nullptr;
  auto at = [&](int64_t h) { return to_v ? to_v + h : nullptr; };
  int64_t h = 0;
  for (; h + 4 * WIDTH <= hidden; h += 4 * WIDTH)
    slope_some<4>(pairs, a + h, b + h, g, to_first + h, at(h));
  for (; h + WIDTH <= hidden; h += WIDTH)
    slope_some<1>(pairs, a + h, b + h, g, to_first + h, at(h));
  for (; h < hidden; h++) slope_one(pairs, a[h], b + h, g, to_first + h, at(h));
}

int pair_up(const Pairs& pairs, Progress& progress) {
  auto make = [&](int) {
    return [&](int64_t task) {
      if (pairs.scores) score_row(pairs, task);
      else slope_row(pairs, task);
    };
  };
  return run_tasks(static_cast<int>(pairs.threads), pairs.rows * pairs.firsts, progress, make);
}

}  // namespace regard
