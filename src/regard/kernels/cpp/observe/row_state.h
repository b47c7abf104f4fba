// The running sums and maxima of each query of a panel while its keys go by (online softmax); queries
// lie along the vectors.
#pragma once
#include "scores.h"

namespace regard {

struct alignas(64) RowState {
  // `shift` is the largest score so far; all sums are of weights relative to 2^shift.
  float shift[ROWS], total[ROWS], surprise[ROWS], distance[ROWS], future[ROWS], padding[ROWS];
  float fade[ROWS];         // the factor by which the newest block rescaled older sums
  float block_max[ROWS];
  float first[ROWS], self[ROWS], previous[ROWS], next[ROWS];  // scores of single keys
  int32_t largest_key[ROWS];
  float *tile_max, *tile_sum;  // of the newest block: [TILES][ROWS]

  void clear() {
    for (int q = 0; q < ROWS; q++) {
      shift[q] = first[q] = self[q] = previous[q] = next[q] = NEVER;
      total[q] = surprise[q] = distance[q] = future[q] = padding[q] = 0.0f;
      largest_key[q] = -1;
    }
  }
};

// What normalises each row: a weight is 2^(score - high) * inverse, with inverse = 2^-log. high and log
// are kept apart because in their sum a large high would swallow log. A row without any weight, or a
// lane without a query, has an infinite high; a row without a softmax has NaN in all three.
struct alignas(64) RowNormaliser {
  float high[ROWS], log[ROWS], inverse[ROWS];
};

// The largest score of each tile and of the block.
INLINE void tile_maxima(const float* scores, int tiles, int vectors, RowState& state) {
  for (int c = 0; c < vectors; c++) {
    vec all = splat(NEVER);
    for (int t = 0; t < tiles; t++) {
      const float* s = scores + t * TILE * ROWS + c * WIDTH;
      vec high = load(s);
#pragma GCC unroll 8
      for (int k = 1; k < TILE; k++) high = larger(high, load(s + k * ROWS));
      store(state.tile_max + t * ROWS + c * WIDTH, high);
      all = larger(all, high);
    }
    store(state.block_max + c * WIDTH, all);
  }
}

// Record the key of each new largest score. A later key must be larger, so the first of equals stays.
INLINE void update_largest_key(const float* scores, int64_t first_key, int tiles, int count,
                         RowState& state) {
  for (int q = 0; q < count; q++) {
    const float high = state.block_max[q];
    if (!(high > state.shift[q])) continue;
    int t = 0;
    while (t < tiles - 1 && state.tile_max[t * ROWS + q] != high) t++;
    int k = t * TILE;
    while (k < tiles * TILE - 1 && scores[k * ROWS + q] != high) k++;
    state.largest_key[q] = static_cast<int32_t>(first_key + k);
  }
}

// The scores of key 0 and of the three keys around each query's own position.
INLINE void record_position_scores(const float* scores, const QueryPanel& panel, int64_t first_key,
                                   int64_t keys, RowState& state) {
  if (first_key == 0)
    for (int q = 0; q < panel.count; q++) state.first[q] = scores[q];
  const int64_t low = std::max<int64_t>(0, first_key - 1 - panel.position);
  const int64_t high = std::min<int64_t>(panel.count, first_key + keys + 1 - panel.position);
  for (int64_t q = low; q < high; q++) {
    const int64_t k = panel.position + q - first_key;
    if (k > 0 && k <= keys) state.previous[q] = scores[(k - 1) * ROWS + q];
    if (k >= 0 && k < keys) state.self[q] = scores[k * ROWS + q];
    if (k >= -1 && k < keys - 1) state.next[q] = scores[(k + 1) * ROWS + q];
  }
}

// Sums of one vector of queries over a block.
struct Sums {
  vec total, surprise, distance, future;
};

// Below this logarithm a weight p is 0, and p log p is taken as 0 however low the score.
constexpr float ZERO_WEIGHT_LOG = -200.0f;

// A tile in which some query of the vector has keys before and after its own position.
INLINE void exponentiate_mixed_tile(float* s, vec shift, vec gap, float* tile_sum, Sums& sums) {
  vec total = {};
  for (int k = 0; k < TILE; k++) {
    const vec x = load(s + k * ROWS) - shift, p = exp2(x);
    const vec behind = gap - static_cast<float>(k);
    store(s + k * ROWS, p);
    total += p;
    sums.surprise += p * larger(x, splat(ZERO_WEIGHT_LOG));
    sums.distance += p * larger(behind, -behind);
    sums.future += behind < 0.0f ? p : vec{};
  }
  store(tile_sum, total);
  sums.total += total;
}

// A tile that lies on one side of each query of the vector; `gap` is the distance to its first key.
template <bool STATISTICS>
INLINE void exponentiate_tile(float* s, vec shift, vec gap, float* tile_sum, Sums& sums) {
  vec total = {}, along = {};
#pragma GCC unroll 8
  for (int k = 0; k < TILE; k++) {
    const vec x = load(s + k * ROWS) - shift, p = exp2(x);
    store(s + k * ROWS, p);
    total += p;
    if (STATISTICS) {
      sums.surprise += p * larger(x, splat(ZERO_WEIGHT_LOG));
      if (k) along += p * static_cast<float>(k);
    }
  }
  store(tile_sum, total);
  sums.total += total;
  if (STATISTICS) {
    const vec behind = total * gap - along;
    sums.distance += larger(behind, -behind);
    sums.future += gap < 0.0f ? total : vec{};
  }
}

// Turn the scores of a block into weights relative to the new shift, and update all sums.
template <bool STATISTICS>
INLINE void exponentiate(float* scores, const QueryPanel& panel, int64_t first_key, int tiles,
                         RowState& state) {
  for (int c = 0; c < panel.vectors; c++) {
    const int at = c * WIDTH;
    const vec old = load(state.shift + at), high = larger(old, load(state.block_max + at));
    const vec shift = high == NEVER ? vec{} : high;  // no key seen yet: weights of zero
    const vec fade = exp2(old - shift);
    const int64_t position = panel.position + at;
    vec gap;
    for (int i = 0; i < WIDTH; i++) gap[i] = static_cast<float>(position + i - first_key);
    Sums sums = {};
    for (int t = 0; t < tiles; t++, gap -= TILE) {
      float* s = scores + t * TILE * ROWS + at;
      float* tile_sum = state.tile_sum + t * ROWS + at;
      const int64_t j = first_key + t * TILE;
      if (STATISTICS && j + TILE - 1 > position && j < position + WIDTH)
        exponentiate_mixed_tile(s, shift, gap, tile_sum, sums);
      else
        exponentiate_tile<STATISTICS>(s, shift, gap, tile_sum, sums);
    }
    const vec total = load(state.total + at);
    if (STATISTICS) {
      const vec moved = larger(old - shift, splat(ZERO_WEIGHT_LOG)) * total;
      store(state.surprise + at, fade * (load(state.surprise + at) + moved) + sums.surprise);
      store(state.distance + at, fade * load(state.distance + at) + sums.distance);
      store(state.future + at, fade * load(state.future + at) + sums.future);
    }
    store(state.total + at, fade * total + sums.total);
    store(state.shift + at, high);
    store(state.fade + at, fade);
  }
}

// Add the weight on keys that are padding; called with the block's weights.
INLINE void add_padding(const float* weights, const uint8_t* padded, int64_t keys, int vectors,
                         RowState& state) {
  for (int c = 0; c < vectors; c++) {
    vec sum = load(state.padding + c * WIDTH) * load(state.fade + c * WIDTH);
    for (int64_t k = 0; k < keys; k++)
      if (padded[k]) sum += load(weights + k * ROWS + c * WIDTH);
    store(state.padding + c * WIDTH, sum);
  }
}

}  // namespace regard
