// The scores of one block: products, softcap, biases and masks. Scores are multiplied by log2(e), so
// that weights are powers of two.
#pragma once
#include <algorithm>

#include "products.h"

namespace regard {

// Up to ROWS queries of one head, from `first` on; `position` is that of the first query, and `vectors`
// how many vectors hold them.
struct QueryPanel {
  int64_t b, h, first, position;
  int count, vectors;
};

// The buffers of one thread for the scores of a block.
struct Scratch {
  Buffer<> row, query, key, scores;
  explicit Scratch(const Call& call)
      : row(buffer(8 * round_up(call.dim, 8))),
        query(buffer(round_up(call.dim, 8) * ROWS)),
        key(buffer(COLUMNS * std::max<int64_t>(call.dim, 1))),
        scores(buffer(COLUMNS * ROWS)) {}
};

INLINE QueryPanel load_panel(const Call& call, int64_t b, int64_t h, int64_t first, int64_t stop,
                        Scratch& own) {
  const int count = static_cast<int>(std::min<int64_t>(ROWS, stop - first));
  pack_queries(call, b, h, first, count, call.scale * LOG2E, own.row.get(), own.query.get());
  return {b, h, first, call.offset + first, count, (count + WIDTH - 1) / WIDTH};
}

// The blocks of keys that the window shows to some query of the panel: .first up to, not with, .second.
INLINE std::pair<int64_t, int64_t> reach(const Call& call, const QueryPanel& panel) {
  const int64_t low = std::max<int64_t>(0, panel.position - call.left);
  const int64_t high = std::min(call.keys, panel.position + panel.count + call.right);
  if (high <= low) return {0, 0};
  return {low / COLUMNS, (high + COLUMNS - 1) / COLUMNS};
}

// A natural logit in base 2. A finite one stays finite: a row whose bias is the lowest float everywhere
// is uniform, not empty.
INLINE float to_base_2(float x) {
  return std::isinf(x) ? x : std::clamp(x * LOG2E, -3e38f, 3e38f);
}

INLINE float term_value(const ScoreTerm& term, int64_t at) {
  if (term.kind == BOOLEAN) return static_cast<const uint8_t*>(term.data)[at] ? 0.0f : NEVER;
  return to_base_2(element(term.data, term.kind, at));
}

INLINE int64_t term_base(const ScoreTerm& term, const QueryPanel& panel, int64_t first_key) {
  return panel.b * term.strides[0] + panel.h * term.strides[1] +
         (panel.first - term.first_row) * term.strides[2] + first_key * term.strides[3];
}

// True if a mask that is the same for every query hides all keys of the block.
static bool all_hidden(const Call& call, const QueryPanel& panel, int64_t first_key, int64_t keys) {
  for (const ScoreTerm& term : call.terms) {
    if (term.kind != BOOLEAN || term.strides[2] != 0) continue;
    const uint8_t* seen = static_cast<const uint8_t*>(term.data) + term_base(term, panel, first_key);
    bool any = false;
    for (int64_t k = 0; k < keys; k++) any |= seen[k * term.strides[3]] != 0;
    if (!any) return true;
  }
  return false;
}

// Add a bias, or apply a mask, that is the same for all queries. A mask sets scores instead of adding
// to them: a hidden score is hidden even if it is NaN.
static void add_key_term(const ScoreTerm& term, int64_t base, int64_t keys, float* scores) {
  const bool mask = term.kind == BOOLEAN;
  for (int64_t k = 0; k < keys; k++) {
    const float x = term_value(term, base + k * term.strides[3]);
    if (x == 0.0f) continue;
    for (int q = 0; q < ROWS; q += WIDTH)
      store(scores + k * ROWS + q, mask ? splat(NEVER) : load(scores + k * ROWS + q) + x);
  }
}

// Add a bias, or apply a mask, that varies by query and key.
static void add_pair_term(const ScoreTerm& term, int64_t base, const QueryPanel& panel, int64_t keys,
                        float* scores) {
  const int64_t down = term.strides[2], across = term.strides[3];
  for (int q = 0; q < panel.count; q += 8) {
    const int rows = std::min(8, panel.count - q);
    for (int64_t k = 0; k < keys; k += 8) {
      const int columns = static_cast<int>(std::min<int64_t>(8, keys - k));
      alignas(32) float numbers[8][8] = {};
      for (int i = 0; i < rows; i++) {
        const int64_t at = base + (q + i) * down + k * across;
        for (int j = 0; j < columns; j++) numbers[i][j] = term_value(term, at + j * across);
      }
      oct patch[8];
      for (int i = 0; i < 8; i++) patch[i] = load8(numbers[i]);
      transpose8(patch);
      for (int i = 0; i < columns; i++) {
        float* own = scores + (k + i) * ROWS + q;
        const oct score = load8(own);
        store8(own, term.kind == BOOLEAN ? (patch[i] == NEVER ? patch[i] : score) : score + patch[i]);
      }
    }
  }
}

// c tanh(s / c) of each score. With x = s / c, tanh(x) is 1 - 2 / (e^2x + 1); near zero, where that
// difference would lose its digits, it is x + x^3 P(x^2), with P fitted to 4e-9 of tanh(x) / x.
static void apply_softcap(float softcap, int64_t keys, float* scores) {
  constexpr float NEAR = 0.39f;  // the largest x^2 of the polynomial
  const float high = softcap * LOG2E;
  const float inverse = std::min(1.0f / high, 1e38f);  // 1 / a denormal number would be infinite
  for (int64_t i = 0; i < keys * ROWS; i += WIDTH) {
    const vec s = load(scores + i), x = s * inverse, square = x * x;
    vec p = square * -0.00572081232f + 0.0206537985f;
    p = p * square - 0.0537444289f;
    p = p * square + 0.133315017f;
    p = p * square - 0.333332843f;
    // `smaller` keeps a NaN that is its second argument.
    const vec e = exp2(smaller(splat(126.0f), x * (2.0f * LOG2E)));
    const vec far = high * (1.0f - 2.0f / (e + 1.0f));
    store(scores + i, square < NEAR ? s + s * (square * p) : far);
  }
}

// Set the scores of keys outside the window of each query, and of padding columns, to minus infinity.
static void mask_window(const Call& call, const QueryPanel& panel, int64_t first_key, int64_t keys,
                       int64_t filled, float* scores) {
  for (int64_t k = keys; k < filled; k++)
    for (int q = 0; q < ROWS; q += WIDTH) store(scores + k * ROWS + q, splat(NEVER));
  const int64_t oldest = panel.position, newest = oldest + panel.count - 1;
  const bool left = newest - call.left > first_key;
  const bool right = oldest + call.right < first_key + keys - 1;
  if (!left && !right) return;
  for (int64_t k = 0; k < keys; k++) {
    const int64_t j = first_key + k;
    // Queries before `from`, and those from `stop` on, do not see this key.
    const int64_t from = right ? std::clamp<int64_t>(j - call.right - oldest, 0, ROWS) : 0;
    const int64_t stop = left ? std::clamp<int64_t>(j + call.left + 1 - oldest, 0, ROWS) : ROWS;
    float* row = scores + k * ROWS;
    for (int64_t q = 0; q < from; q++) row[q] = NEVER;
    for (int64_t q = stop; q < ROWS; q++) row[q] = NEVER;
  }
}

// Hide all keys from the lanes of the last vector that hold no query: a NaN or infinite key would make
// them NaN, and sums over lanes with them.
static void mask_empty_lanes(const QueryPanel& panel, int64_t filled, float* scores) {
  const int last = (panel.vectors - 1) * WIDTH;
  if (panel.count == last + WIDTH) return;
  ivec empty;
  for (int i = 0; i < WIDTH; i++) empty[i] = last + i < panel.count ? 0 : -1;
  for (int64_t k = 0; k < filled; k++) {
    float* own = scores + k * ROWS + last;
    store(own, empty ? splat(NEVER) : load(own));
  }
}

// Write the scores of `keys` keys from first_key on, padded to whole tiles; false if all are hidden.
static bool block_scores(const Call& call, const QueryPanel& panel, int64_t first_key, int64_t keys,
                         Scratch& own) {
  if (all_hidden(call, panel, first_key, keys)) return false;
  const int64_t filled = round_up(keys, TILE);
  const int64_t head = panel.h / (call.heads / call.key_heads);
  const int64_t base = panel.b * call.key.strides[0] + head * call.key.strides[1];
  const BlockRows key = load_rows(call.key, call.kind, base, first_key, keys, filled, call.dim, call.dim,
                           own.key.get());
  float* out = own.scores.get();
  scores(key, own.query.get(), call.dim, filled, panel.vectors, out);
  if (call.softcap > 0) apply_softcap(call.softcap, filled, out);
  for (const ScoreTerm& term : call.terms) {
    if (term.kind == ABSENT) continue;
    const int64_t at = term_base(term, panel, first_key);
    if (term.strides[2] == 0)
      add_key_term(term, at, keys, out);
    else
      add_pair_term(term, at, panel, keys, out);
  }
  mask_window(call, panel, first_key, keys, filled, out);
  mask_empty_lanes(panel, filled, out);
  return true;
}

}  // namespace regard
