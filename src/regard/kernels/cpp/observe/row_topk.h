// The largest scores of each query and their keys, kept sorted while keys go by.
#pragma once
#include "row_state.h"

namespace regard {

constexpr int FEW = 8;  // so many fit in registers
static_assert(FEW == TILE, "a tile is merged with the list as its equal");

// While so few keys are known, most tiles bring several that matter: sort them in together.
constexpr int64_t EARLY = 1024;

// Let a be the larger of the two.
INLINE void order(vec& a, ivec& key_a, vec& b, ivec& key_b) {
  const ivec swap = b > a, kept = key_a;
  const vec low = smaller(a, b);
  a = larger(a, b);
  b = low;
  key_a = swap ? key_b : key_a;
  key_b = swap ? kept : key_b;
}

// Batcher's odd-even merge sort of eight, and the half cleaners of a bitonic merge.
constexpr int SORT[][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6},
                           {5, 7}, {1, 2}, {5, 6}, {0, 4}, {1, 5}, {2, 6}, {3, 7},
                           {2, 4}, {3, 5}, {1, 2}, {3, 4}, {5, 6}};
constexpr int MERGE[][2] = {{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 2}, {1, 3},
                            {4, 6}, {5, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}};

// The largest eight of a falling list and a tile, as a falling list.
INLINE void merge_tile(const float* tile, int32_t first_key, vec score[FEW], ivec key[FEW]) {
  vec x[TILE];
  ivec which[TILE];
#pragma GCC unroll 8
  for (int i = 0; i < TILE; i++) {
    x[i] = load(tile + i * ROWS);
    which[i] = first_key + i + ivec{};
  }
#pragma GCC unroll 32
  for (const auto& pair : SORT) order(x[pair[0]], which[pair[0]], x[pair[1]], which[pair[1]]);
#pragma GCC unroll 8
  for (int i = 0; i < FEW; i++) {
    key[i] = x[TILE - 1 - i] > score[i] ? which[TILE - 1 - i] : key[i];
    score[i] = larger(score[i], x[TILE - 1 - i]);
  }
#pragma GCC unroll 32
  for (const auto& pair : MERGE) order(score[pair[0]], key[pair[0]], score[pair[1]], key[pair[1]]);
}

struct Best {
  int top, slots;
  int64_t known;  // how many keys have gone by
  Buffer<> scores;       // [slots][ROWS], falling
  Buffer<int32_t> keys;  // [slots][ROWS]
  explicit Best(int64_t top)
      : top(static_cast<int>(top)),
        slots(std::max(FEW, this->top)),
        scores(buffer(slots * ROWS)),
        keys(buffer<int32_t>(slots * ROWS)) {}

  void clear() {
    known = 0;
    for (int i = 0; i < slots * ROWS; i++) {
      scores[i] = NEVER;
      keys[i] = -1;
    }
  }

  void note(const float* block, int64_t first_key, int tiles, int vectors, const State& state) {
    for (int c = 0; c < vectors; c++) {
      const float* bar = scores.get() + (slots - 1) * ROWS + c * WIDTH;
      if (!any_above(load(state.block_max + c * WIDTH), load(bar))) continue;
      if (slots == FEW)
        note_few(block + c * WIDTH, first_key, tiles, state.tile_max + c * WIDTH, c * WIDTH);
      else
        note_many(block + c * WIDTH, first_key, tiles, state.tile_max + c * WIDTH, c * WIDTH);
    }
    known += tiles * TILE;
  }

  // In registers: where a list is larger than the candidate its entry stays, else it takes the
  // candidate or, further down, the entry before it.
  void note_few(const float* block, int64_t first_key, int tiles, const float* maxima, int at) {
    vec score[FEW];
    ivec key[FEW];
    for (int i = 0; i < FEW; i++) {
      score[i] = load(scores.get() + i * ROWS + at);
      key[i] = *reinterpret_cast<const ivec*>(keys.get() + i * ROWS + at);
    }
    for (int t = 0; t < tiles; t++) {
      if (!any_above(load(maxima + t * ROWS), score[FEW - 1])) continue;
      if (known < EARLY) {
        merge_tile(block + t * TILE * ROWS, static_cast<int32_t>(first_key) + t * TILE, score, key);
        continue;
      }
      for (int k = t * TILE; k < (t + 1) * TILE; k++) {
        const vec x = load(block + k * ROWS);
        if (!any_above(x, score[FEW - 1])) continue;
        const ivec which = static_cast<int32_t>(first_key + k) + ivec{};
        ivec here = x > score[FEW - 1];
#pragma GCC unroll 8
        for (int i = FEW - 1; i > 0; i--) {
          const ivec before = x > score[i - 1];
          key[i] = here ? which : key[i];
          key[i] = before ? key[i - 1] : key[i];
          score[i] = larger(score[i], smaller(x, score[i - 1]));
          here = before;
        }
        key[0] = here ? which : key[0];
        score[0] = larger(score[0], x);
      }
    }
    for (int i = 0; i < FEW; i++) {
      store(scores.get() + i * ROWS + at, score[i]);
      *reinterpret_cast<ivec*>(keys.get() + i * ROWS + at) = key[i];
    }
  }

  void note_many(const float* block, int64_t first_key, int tiles, const float* maxima, int at) {
    float* score = scores.get() + at;
    int32_t* key = keys.get() + at;
    const float* bar = score + (slots - 1) * ROWS;
    for (int t = 0; t < tiles; t++) {
      if (!any_above(load(maxima + t * ROWS), load(bar))) continue;
      for (int k = t * TILE; k < (t + 1) * TILE; k++) {
        vec x = load(block + k * ROWS);
        if (!any_above(x, load(bar))) continue;
        ivec which = static_cast<int32_t>(first_key + k) + ivec{};
        for (int i = 0; i < slots; i++) {  // a candidate sinks to its place
          const vec own = load(score + i * ROWS);
          ivec& place = *reinterpret_cast<ivec*>(key + i * ROWS);
          const ivec above = x > own, kept = place;
          store(score + i * ROWS, larger(x, own));
          x = smaller(x, own);
          place = above ? which : kept;
          which = above ? kept : which;
        }
      }
    }
  }
};

}  // namespace regard
