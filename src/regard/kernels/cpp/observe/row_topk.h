// The largest scores of each query and their keys, in sorted lists that are updated block by block.
#pragma once
#include "row_state.h"

namespace regard {

constexpr int REGISTER_TOP = 8;  // lists of up to this length are kept in registers
static_assert(REGISTER_TOP == TILE, "merge_tile merges a list and a tile of the same length");

// Up to this many keys, most tiles hold several new entries of the list: merge the whole tile. After
// that most tiles hold none or one, and single insertions are faster.
constexpr int64_t MERGE_KEYS = 1024;

// Compare and swap: a becomes the larger of the two.
INLINE void order(vec& a, ivec& key_a, vec& b, ivec& key_b) {
  const ivec swap = b > a, old_key = key_a;
  const vec low = smaller(a, b);
  a = larger(a, b);
  b = low;
  key_a = swap ? key_b : key_a;
  key_b = swap ? old_key : key_b;
}

// Sorting networks: Batcher's odd-even merge sort of eight, and the half cleaners of a bitonic merge.
constexpr int SORT[][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6},
                           {5, 7}, {1, 2}, {5, 6}, {0, 4}, {1, 5}, {2, 6}, {3, 7},
                           {2, 4}, {3, 5}, {1, 2}, {3, 4}, {5, 6}};
constexpr int MERGE[][2] = {{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 2}, {1, 3},
                            {4, 6}, {5, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}};

// Replace a falling list by the largest eight of the list and a tile.
INLINE void merge_tile(const float* tile, int32_t first_key, vec score[REGISTER_TOP],
                       ivec key[REGISTER_TOP]) {
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
  for (int i = 0; i < REGISTER_TOP; i++) {
    key[i] = x[TILE - 1 - i] > score[i] ? which[TILE - 1 - i] : key[i];
    score[i] = larger(score[i], x[TILE - 1 - i]);
  }
#pragma GCC unroll 32
  for (const auto& pair : MERGE) order(score[pair[0]], key[pair[0]], score[pair[1]], key[pair[1]]);
}

struct RowTopK {
  int64_t top, slots;
  int64_t keys_seen;
  Buffer<> scores;       // [slots][ROWS], falling
  Buffer<int32_t> keys;  // [slots][ROWS]
  explicit RowTopK(int64_t top)
      : top(top),
        slots(std::max<int64_t>(REGISTER_TOP, top)),
        scores(buffer(static_cast<size_t>(slots * ROWS))),
        keys(buffer<int32_t>(static_cast<size_t>(slots * ROWS))) {}

  void clear() {
    keys_seen = 0;
    for (int64_t i = 0; i < slots * ROWS; i++) {
      scores[i] = NEVER;
      keys[i] = -1;
    }
  }

  // Take in the scores of a block; vectors of queries whose block maximum is below the last entry
  // of their list are skipped.
  void add_block(const float* block, int64_t first_key, int tiles, int vectors, const RowState& state) {
    for (int c = 0; c < vectors; c++) {
      const float* bar = scores.get() + (slots - 1) * ROWS + c * WIDTH;
      if (!any_above(load(state.block_max + c * WIDTH), load(bar))) continue;
      if (slots == REGISTER_TOP)
        add_in_registers(block + c * WIDTH, first_key, tiles, state.tile_max + c * WIDTH, c * WIDTH);
      else
        add_in_memory(block + c * WIDTH, first_key, tiles, state.tile_max + c * WIDTH, c * WIDTH);
    }
    keys_seen += tiles * TILE;
  }

  // The list is in registers. Inserting x: an entry above x stays, the first entry below x becomes
  // x, and every later entry becomes the one before it.
  void add_in_registers(const float* block, int64_t first_key, int tiles, const float* maxima, int at) {
    vec score[REGISTER_TOP];
    ivec key[REGISTER_TOP];
    for (int i = 0; i < REGISTER_TOP; i++) {
      score[i] = load(scores.get() + i * ROWS + at);
      key[i] = *reinterpret_cast<const ivec*>(keys.get() + i * ROWS + at);
    }
    for (int t = 0; t < tiles; t++) {
      if (!any_above(load(maxima + t * ROWS), score[REGISTER_TOP - 1])) continue;
      if (keys_seen < MERGE_KEYS) {
        merge_tile(block + t * TILE * ROWS, static_cast<int32_t>(first_key) + t * TILE, score, key);
        continue;
      }
      for (int k = t * TILE; k < (t + 1) * TILE; k++) {
        const vec x = load(block + k * ROWS);
        if (!any_above(x, score[REGISTER_TOP - 1])) continue;
        const ivec which = static_cast<int32_t>(first_key + k) + ivec{};
        ivec here = x > score[REGISTER_TOP - 1];
#pragma GCC unroll 8
        for (int i = REGISTER_TOP - 1; i > 0; i--) {
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
    for (int i = 0; i < REGISTER_TOP; i++) {
      store(scores.get() + i * ROWS + at, score[i]);
      *reinterpret_cast<ivec*>(keys.get() + i * ROWS + at) = key[i];
    }
  }

  // The list is in memory, for lists longer than REGISTER_TOP.
  void add_in_memory(const float* block, int64_t first_key, int tiles, const float* maxima, int at) {
    float* score = scores.get() + at;
    int32_t* key = keys.get() + at;
    const float* bar = score + (slots - 1) * ROWS;
    for (int t = 0; t < tiles; t++) {
      if (!any_above(load(maxima + t * ROWS), load(bar))) continue;
      for (int k = t * TILE; k < (t + 1) * TILE; k++) {
        vec x = load(block + k * ROWS);
        if (!any_above(x, load(bar))) continue;
        ivec which = static_cast<int32_t>(first_key + k) + ivec{};
        for (int64_t i = 0; i < slots; i++) {  // x moves down the list to its place
          const vec own = load(score + i * ROWS);
          ivec& place = *reinterpret_cast<ivec*>(key + i * ROWS);
          const ivec above = x > own, old_key = place;
          store(score + i * ROWS, larger(x, own));
          x = smaller(x, own);
          place = above ? which : old_key;
          which = above ? old_key : which;
        }
      }
    }
  }
};

}  // namespace regard
