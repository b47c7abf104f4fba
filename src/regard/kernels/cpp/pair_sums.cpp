// Sums over hidden units of r = 1 / (1 + a b) for every pair of a query and a key, and the gradients of
// these sums: what additive scores need, without holding query x key x hidden numbers.
#include "shared/parallel.h"
#include "shared/simd.h"

namespace regard {

// `first` and `second` are the two sides of the pairs; each row of `first` is a task. The gradient has
// strides for both sides, so that the caller may exchange queries and keys.
struct PairSums {
  const float *first, *second, *v, *gradient;
  float *scores, *to_first, *to_v;
  int64_t rows, firsts, seconds, hidden;
  int64_t gradient_strides[3];
  int64_t threads;
};

INLINE float sum_lanes_in_order(vec x) {
  float sum = 0.0f;
  for (int i = 0; i < WIDTH; i++) sum += x[i];
  return sum;
}

// scores[j] = sum over hidden of v / (1 + a b_j), for keys j .. j + COUNT.
template <int COUNT>
INLINE void score_keys(const PairSums& pairs, const float* a, const float* b, float* scores) {
  const int64_t hidden = pairs.hidden;
  vec sums[COUNT] = {};
  int64_t h = 0;
  for (; h + WIDTH <= hidden; h += WIDTH) {
    const vec left = load_unaligned(a + h), v = load_unaligned(pairs.v + h);
    for (int j = 0; j < COUNT; j++) sums[j] += v / (left * load_unaligned(b + j * hidden + h) + 1.0f);
  }
  for (int j = 0; j < COUNT; j++) {
    float sum = sum_lanes_in_order(sums[j]);
    for (int64_t t = h; t < hidden; t++) sum += pairs.v[t] / (1.0f + a[t] * b[j * hidden + t]);
    scores[j] = sum;
  }
}

void score_row(const PairSums& pairs, int64_t task) {
  const int64_t row = task / pairs.firsts;
  const float* a = pairs.first + task * pairs.hidden;
  const float* b = pairs.second + row * pairs.seconds * pairs.hidden;
  float* scores = pairs.scores + task * pairs.seconds;
  int64_t j = 0;
  for (; j + 4 <= pairs.seconds; j += 4)
    score_keys<4>(pairs, a, b + j * pairs.hidden, scores + j);
  for (; j < pairs.seconds; j++) score_keys<1>(pairs, a, b + j * pairs.hidden, scores + j);
}

// to_first[h] = sum over j of g_j r (1 - r), to_v[h] = sum over j of g_j r, at COUNT vectors of h.
template <int COUNT>
INLINE void gradient_vectors(const PairSums& pairs, const float* a, const float* b, const float* g,
                       float* to_first, float* to_v) {
  vec left[COUNT], slope_sum[COUNT] = {}, r_sum[COUNT] = {};
  for (int i = 0; i < COUNT; i++) left[i] = load_unaligned(a + i * WIDTH);
  for (int64_t j = 0; j < pairs.seconds; j++) {
    const float weight = g[j * pairs.gradient_strides[2]];
    for (int i = 0; i < COUNT; i++) {
      const vec r = 1.0f / (left[i] * load_unaligned(b + j * pairs.hidden + i * WIDTH) + 1.0f);
      r_sum[i] += r * weight;
      slope_sum[i] += (r - r * r) * weight;
    }
  }
  for (int i = 0; i < COUNT; i++) {
    *reinterpret_cast<loose_vec*>(to_first + i * WIDTH) = (loose_vec)slope_sum[i];
    if (to_v) *reinterpret_cast<loose_vec*>(to_v + i * WIDTH) = (loose_vec)r_sum[i];
  }
}

INLINE void gradient_scalar(const PairSums& pairs, float a, const float* b, const float* g, float* to_first,
                      float* to_v) {
  float slope_sum = 0.0f, r_sum = 0.0f;
  for (int64_t j = 0; j < pairs.seconds; j++) {
    const float r = 1.0f / (1.0f + a * b[j * pairs.hidden]);
    r_sum += r * g[j * pairs.gradient_strides[2]];
    slope_sum += (r - r * r) * g[j * pairs.gradient_strides[2]];
  }
  *to_first = slope_sum;
  if (to_v) *to_v = r_sum;
}

void gradient_row(const PairSums& pairs, int64_t task) {
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
    gradient_vectors<4>(pairs, a + h, b + h, g, to_first + h, at(h));
  for (; h + WIDTH <= hidden; h += WIDTH)
    gradient_vectors<1>(pairs, a + h, b + h, g, to_first + h, at(h));
  for (; h < hidden; h++) gradient_scalar(pairs, a[h], b + h, g, to_first + h, at(h));
}

int pair_sums(const PairSums& pairs, Progress& progress) {
  auto make = [&](int) {
    return [&](int64_t task) {
      if (pairs.scores) score_row(pairs, task);
      else gradient_row(pairs, task);
    };
  };
  return run_tasks(static_cast<int>(pairs.threads), pairs.rows * pairs.firsts, progress, make);
}

}  // namespace regard
