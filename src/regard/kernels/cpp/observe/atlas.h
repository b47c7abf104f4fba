// Each head's weights pooled to cells. While keys go by, sums and maxima are kept relative to the
// largest score so far; when the normalisers of the rows are known, they are added to the cells.
#pragma once
#include "row_state.h"

namespace regard {

// Sums and maxima over parts of a cell (at most one block of keys wide) for each query.
struct Atlas {
  int64_t part, per_block, parts_per_cell, down, across;
  Buffer<> sums, maxima;  // [parts][ROWS]
  Buffer<> shifts;        // [blocks][ROWS]
  Buffer<> tiles;         // sums and maxima of one block, where a part is more than one tile
  Buffer<> logs;          // [parts], twice

  Atlas(const Call& call, const ObservationPointers& results)
      : part(std::min<int64_t>(results.cell_columns, COLUMNS)),
        per_block(COLUMNS / part),
        parts_per_cell(results.cell_columns / part),
        down((call.queries + results.cell_rows - 1) / results.cell_rows),
        across((call.keys + results.cell_columns - 1) / results.cell_columns) {
    const int64_t blocks = (call.keys + COLUMNS - 1) / COLUMNS;
    // Zeros, because lanes without a query are never written but are read: multiplied by zero they
    // vanish, unless the memory happens to hold NaN.
    sums = zeros(blocks * per_block * ROWS);
    maxima = zeros(blocks * per_block * ROWS);
    shifts = zeros(blocks * ROWS);
    tiles = zeros(2 * TILES * ROWS);
    logs = zeros(2 * logs_stride());
  }

  static Buffer<> zeros(int64_t count) {
    Buffer<> made = buffer(static_cast<size_t>(count));
    memset(made.get(), 0, static_cast<size_t>(count) * 4);
    return made;
  }

  // Set where the state writes the sums and maxima of a block's tiles: directly to their place if a
  // part is one tile, else to a buffer.
  void begin_block(int64_t block, RowState& state) {
    const bool in_place = part == TILE;
    state.tile_max = in_place ? maxima.get() + block * per_block * ROWS : tiles.get();
    state.tile_sum = in_place ? sums.get() + block * per_block * ROWS : tiles.get() + TILES * ROWS;
  }

  // Reduce the tiles of a block to parts; `count` is 0 if all of the block is hidden.
  void end_block(int64_t block, int count, const RowState& state) {
    const int64_t wide = part / TILE;
    for (int64_t p = 0; p < per_block; p++) {
      if (wide == 1 && p < count) continue;
      float* sum = sums.get() + (block * per_block + p) * ROWS;
      float* high = maxima.get() + (block * per_block + p) * ROWS;
      for (int q = 0; q < ROWS; q += WIDTH) {
        vec s = {}, m = splat(NEVER);
        for (int64_t t = p * wide; t < std::min<int64_t>((p + 1) * wide, count); t++) {
          s += load(state.tile_sum + t * ROWS + q);
          m = larger(m, load(state.tile_max + t * ROWS + q));
        }
        store(sum + q, s);
        store(high + q, m);
      }
    }
    for (int q = 0; q < ROWS; q += WIDTH) {
      // Minus infinity for a row that has seen no key yet: add_panel makes it a factor of zero.
      store(shifts.get() + block * ROWS + q, load(state.shift + q));
    }
  }

  // Add the rows of a finished panel to their cells.
  void add_panel(const Call& call, const ObservationPointers& results, const QueryPanel& panel,
            std::pair<int64_t, int64_t> blocks, const RowNormaliser& totals) {
    for (int64_t i = blocks.first * ROWS; i < blocks.second * ROWS; i += WIDTH) {
      const int q = static_cast<int>(i % ROWS);
      const vec fade = exp2(load(shifts.get() + i) - load(totals.high + q));
      store(shifts.get() + i, fade * load(totals.inverse + q));
    }
    const int64_t first = blocks.first * per_block, stop = blocks.second * per_block;
    const int64_t head = (panel.b * call.heads + panel.h) * down;
    for (int q = 0; q < panel.count; q += 16) {
      float* rows[2];  // the cells of the first eight queries and of the next
      for (int half = 0; half < 2; half++) {
        const int64_t row = (panel.first + q + 8 * half) / results.cell_rows;
        rows[half] = q + 8 * half < panel.count ? results.cell_sum + (head + row) * across : nullptr;
      }
      const int64_t aside = results.cell_largest - results.cell_sum;
      add_sixteen(first, stop, q, totals, rows);
      for (int half = 0; half < 2; half++)
        if (rows[half]) raise_maxima(first, stop, logs.get() + half * logs_stride(), rows[half] + aside);
    }
    mark_undefined_rows(results, panel, head, totals);
  }

  // All cells of a query whose row has no softmax are NaN, those out of its reach included.
  void mark_undefined_rows(const ObservationPointers& results, const QueryPanel& panel, int64_t head,
                           const RowNormaliser& totals) {
    for (int q = 0; q < panel.count; q++) {
      if (!std::isnan(totals.high[q])) continue;
      const int64_t cells = (head + (panel.first + q) / results.cell_rows) * across;
      std::fill_n(results.cell_sum + cells, across, NAN);
      std::fill_n(results.cell_largest + cells, across, NAN);
    }
  }

  int64_t logs_stride() const { return round_up(across * parts_per_cell + COLUMNS, 16); }

  // Add sixteen queries, from q on, to the cell rows of the first and the second eight of them.
  void add_sixteen(int64_t first, int64_t stop, int q, const RowNormaliser& totals,
                    float* const rows[2]) {
    const hex high = load16(totals.high + q), log_total = load16(totals.log + q);
    for (int64_t p = first; p < stop; p += 8) {
      hex s[8], m[8];
      for (int i = 0; i < 8; i++) {
        const int64_t own = std::min(p + i, stop - 1), block = own / per_block;
        s[i] = load16(sums.get() + own * ROWS + q) * load16(shifts.get() + block * ROWS + q);
        m[i] = load16(maxima.get() + own * ROWS + q) - high - log_total;
      }
      alignas(64) float sum[16], log[16];
      *reinterpret_cast<hex*>(sum) = reduce_halves<Add>(s);
      *reinterpret_cast<hex*>(log) = reduce_halves<Larger>(m);
      const int64_t here = std::min(stop, across * parts_per_cell) - p;
      for (int half = 0; half < 2; half++) {
        if (!rows[half]) continue;
        store8(logs.get() + half * logs_stride() + p, load8(log + 8 * half));
        if (parts_per_cell == 1 && here >= 8) {
          store8(rows[half] + p, load8(rows[half] + p) + load8(sum + 8 * half));
        } else {
          for (int64_t i = 0; i < std::min<int64_t>(8, here); i++)
            rows[half][(p + i) / parts_per_cell] += sum[8 * half + i];
        }
      }
    }
  }

  // Raise cells to the largest weight of their parts, given as logarithms to base 2.
  void raise_maxima(int64_t first, int64_t stop, const float* log, float* cells) {
    const int64_t last = std::min(stop, across * parts_per_cell);
    int64_t p = first;
    for (; parts_per_cell == 1 && p + WIDTH <= last; p += WIDTH) {
      loose_vec& own = *reinterpret_cast<loose_vec*>(cells + p);
      // `larger` returns its second argument if one of them is NaN: a cell that is NaN stays so.
      own = larger(exp2(*reinterpret_cast<const loose_vec*>(log + p)), own);
    }
    for (; p < last; p++) {
      float& cell = cells[p / parts_per_cell];
      cell = std::max(cell, exp2_of(log[p]));
    }
  }
};

}  // namespace regard
