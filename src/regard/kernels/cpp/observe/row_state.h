// What is known of each query of a panel while its keys go by; queries lie along the vectors.
#pragma once
#include "scores.h"

namespace regard {

struct alignas(64) State {
  // Sums are relative to 2^shift, the largest score so far.
  float shift[ROWS], total[ROWS], surprise[ROWS], distance[ROWS], future[ROWS], padding[ROWS];
  float fade[ROWS];         // what the newest block multiplied older sums by
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

// What normalises each row: a weight is 2^(score - high) * inverse, and inverse is 2^-log. The two
// are kept apart because high may be so large that log would be lost in their sum. A row or lane
// without any weight has an infinite high.
struct alignas(64) Totals {
  float high[ROWS], log[ROWS], inverse[ROWS];
};

INLINE void find_maxima(const float* scores, int tiles, int vectors, State& state) {
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

// Where the new largest scores are; a later key must be larger, so the first of equals stays.
INLINE void note_largest(const float* scores, int64_t first_key, int tiles, int count,
                         State& state) {
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
INLINE void note_places(const float* scores, const Panel& panel, int64_t first_key, int64_t keys,
                        State& state) {
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

// p log p is 0 for p = 0, however low the score: below this, p is.
constexpr float NOTHING = -200.0f;

// A tile of keys that some query of the vector has on both sides.
INLINE void weigh_mixed_tile(float* s, vec shift, vec gap, float* tile_sum, Sums& sums) {
  vec total = {};
  for (int k = 0; k < TILE; k++) {
    const vec x = load(s + k * ROWS) - shift, p = exp2(x);
    const vec behind = gap - static_cast<float>(k);
    store(s + k * ROWS, p);
    total += p;
    sums.surprise += p * larger(x, splat(NOTHING));
    sums.distance += p * larger(behind, -behind);
    sums.future += behind < 0.0f ? p : vec{};
  }
  store(tile_sum, total);
  sums.total += total;
}

// A tile of keys that each query of the vector has on one side: gap is that to the first key.
template <bool STATISTICS>
INLINE void weigh_tile(float* s, vec shift, vec gap, float* tile_sum, Sums& sums) {
  vec total = {}, along = {};
#pragma GCC unroll 8
  for (int k = 0; k < TILE; k++) {
    const vec x = load(s + k * ROWS) - shift, p = exp2(x);
    store(s + k * ROWS, p);
    total += p;
    if (STATISTICS) {
      sums.surprise += p * larger(x, splat(NOTHING));
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

// Turn the scores of a block into weights relative to the new shift, and take all sums.
template <bool STATISTICS>
INLINE void weigh(float* scores, const Panel& panel, int64_t first_key, int tiles, State& state) {
  for (int c = 0; c < panel.vectors; c++) {
    const int at = c * WIDTH;
    const vec old = load(state.shift + at), high = larger(old, load(state.block_max + at));
    const vec shift = high == NEVER ? vec{} : high;  // nothing seen yet: weights of zero
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
        weigh_mixed_tile(s, shift, gap, tile_sum, sums);
      else
        weigh_tile<STATISTICS>(s, shift, gap, tile_sum, sums);
    }
    const vec total = load(state.total + at);
    if (STATISTICS) {
      const vec moved = larger(old - shift, splat(NOTHING)) * total;
      store(state.surprise + at, fade * (load(state.surprise + at) + moved) + sums.surprise);
      store(state.distance + at, fade * load(state.distance + at) + sums.distance);
      store(state.future + at, fade * load(state.future + at) + sums.future);
    }
    store(state.total + at, fade * total + sums.total);
    store(state.shift + at, high);
    store(state.fade + at, fade);
  }
}

// The weight on keys that are padding; called with the block's weights.
INLINE void note_padding(const float* weights, const uint8_t* padded, int64_t keys, int vectors,
                         State& state) {
  for (int c = 0; c < vectors; c++) {
    vec sum = load(state.padding + c * WIDTH) * load(state.fade + c * WIDTH);
    for (int64_t k = 0; k < keys; k++)
      if (padded[k]) sum += load(weights + k * ROWS + c * WIDTH);
    store(state.padding + c * WIDTH, sum);
  }
}

}  // namespace regard
