// Attention with its statistics, in one pass over blocks of 48 queries x 128 keys (Dao et al. 2022).
#include "passes.h"

#include <numeric>

#include "atlas.h"
#include "row_topk.h"
#include "../shared/parallel.h"

namespace regard {

namespace {

// The buffers and the running state of one thread.
struct Observer {
  const Call& call;
  const ObservationPointers& results;
  bool statistics;
  int64_t wide;  // width of a value, rounded up to whole tiles
  Scratch own;
  Buffer<> value, context;
  RowState state;
  Buffer<> tiles;
  std::unique_ptr<RowTopK> topk;
  std::unique_ptr<Atlas> atlas;

  Observer(const Call& call, const ObservationPointers& results)
      : call(call),
        results(results),
        statistics(results.entropy != nullptr),
        wide(round_up(call.value_dim, TILE)),
        own(call),
        value(buffer(COLUMNS * wide)),
        context(buffer(wide * ROWS)),
        tiles(buffer(2 * TILES * ROWS)) {
    state.tile_max = tiles.get();
    state.tile_sum = tiles.get() + TILES * ROWS;
    if (results.top) topk.reset(new RowTopK(std::min(results.top, call.keys)));
    if (results.cell_sum) atlas.reset(new Atlas(call, results));
  }

  // The rows first .. of one head, up to 48 of them or to `stop`.
  void observe(int64_t b, int64_t h, int64_t first, int64_t stop) {
    const QueryPanel panel = load_panel(call, b, h, first, stop, own);
    const std::pair<int64_t, int64_t> blocks = reach(call, panel);
    state.clear();
    if (topk) topk->clear();
    memset(context.get(), 0, static_cast<size_t>(wide * ROWS) * 4);
    for (int64_t block = blocks.first; block < blocks.second; block++) {
      const int64_t keys = std::min<int64_t>(COLUMNS, call.keys - block * COLUMNS);
      if (atlas) atlas->begin_block(block, state);
      const bool seen = block_scores(call, panel, block * COLUMNS, keys, own);
      if (seen) observe_block(panel, block * COLUMNS, keys);
      const int tiles = seen ? static_cast<int>(round_up(keys, TILE) / TILE) : 0;
      if (atlas) atlas->end_block(block, tiles, state);
    }
    finish(panel, blocks);
  }

  void observe_block(const QueryPanel& panel, int64_t first_key, int64_t keys) {
    float* scores = own.scores.get();
    const int tiles = static_cast<int>(round_up(keys, TILE) / TILE);
    tile_maxima(scores, tiles, panel.vectors, state);
    if (topk) topk->add_block(scores, first_key, tiles, panel.vectors, state);
    if (statistics) {
      update_largest_key(scores, first_key, tiles, panel.count, state);
      record_position_scores(scores, panel, first_key, keys, state);
      exponentiate<true>(scores, panel, first_key, tiles, state);
      if (call.padded)
        add_padding(scores, call.padded + panel.b * call.keys + first_key, keys, panel.vectors,
                     state);
    } else {
      exponentiate<false>(scores, panel, first_key, tiles, state);
    }
    if (!results.context) return;
    const int64_t head = panel.h / (call.heads / call.key_heads);
    const int64_t base = panel.b * call.value.strides[0] + head * call.value.strides[1];
    const int64_t filled = round_up(keys, TILE);
    const BlockRows rows = load_rows(call.value, call.kind, base, first_key, keys, filled,
                                     call.value_dim, wide, value.get());
    contexts(rows, scores, wide, filled, panel.vectors, state.fade, context.get());
  }

  // What turns the sums of a row into results: `scale` makes sums shares, `share` is the sink's own.
  struct alignas(64) RowResults : RowNormaliser {
    float scale[ROWS], share[ROWS], entropy[ROWS];
  };

  // Normalise the rows of a panel whose keys have all gone by, and write the results.
  void finish(const QueryPanel& panel, std::pair<int64_t, int64_t> blocks) {
    RowResults rows;
    const int64_t row = (panel.b * call.heads + panel.h) * call.queries + panel.first;
    const float sink = call.sink ? to_base_2(call.sink[panel.h]) : NEVER;
    for (int q = 0; q < ROWS; q++) {
      finish_row(q, q < panel.count ? sink : NEVER, q < panel.count, rows);
      if (q < panel.count)
        results.lse[row + q] = rows.high[q] == INFINITY ? NEVER : (rows.high[q] + rows.log[q]) * LN2;
    }
    if (topk) write_topk(panel, row, rows);
    if (statistics) write_statistics(panel, row, rows);
    if (results.context) write_context(panel, rows.scale);
    if (atlas) atlas->add_panel(call, results, panel, blocks, rows);
  }

  // `real` is false for lanes that hold no query.
  void finish_row(int q, float sink, bool real, RowResults& rows) {
    rows.high[q] = INFINITY;
    rows.log[q] = rows.inverse[q] = 0.0f;
    rows.scale[q] = rows.share[q] = rows.entropy[q] = 0.0f;
    const float high = std::max(state.shift[q], sink);
    if (!real) return;
    // The softmax of a row that sees a score of NaN or plus infinity is undefined. The largest score
    // may have missed a NaN, the sum of weights has not.
    if (std::isnan(state.total[q]) || std::isnan(sink) || !(high < INFINITY)) {
      rows.high[q] = rows.log[q] = rows.inverse[q] = NAN;
      rows.scale[q] = rows.share[q] = rows.entropy[q] = NAN;
      return;
    }
    if (high == NEVER) return;
    float fade = state.shift[q] == high ? 1.0f : 0.0f, share = sink == high ? 1.0f : 0.0f;
    if (sink < high && sink != NEVER) share = exp2_of(sink - high);
    if (state.shift[q] < high && state.shift[q] != NEVER) fade = exp2_of(state.shift[q] - high);
    const float total = state.total[q] * fade + share, log = log2f(total);
    float surprise = 0.0f;
    if (fade > 0) surprise += fade * (state.surprise[q] + state.total[q] * (state.shift[q] - high));
    if (share > 0) surprise += share * (sink - high);
    rows.high[q] = high;
    rows.log[q] = log;
    rows.inverse[q] = 1.0f / total;
    rows.scale[q] = fade / total;
    rows.share[q] = share / total;
    rows.entropy[q] = LN2 * (log - surprise / total);
  }

  static void weights_of(const float* scores, const RowResults& rows, float* out) {
    for (int q = 0; q < ROWS; q += WIDTH)
      store(out + q, exp2(load(scores + q) - load(rows.high + q)) * load(rows.inverse + q));
  }

  void write_topk(const QueryPanel& panel, int64_t row, const RowResults& rows) {
    alignas(64) float weight[ROWS];
    for (int q = 0; q < panel.count; q++)
      if (std::isnan(rows.high[q]))
        std::fill_n(results.top_weights + (row + q) * results.top, results.top, NAN);
    for (int64_t i = 0; i < topk->top; i++) {
      weights_of(topk->scores.get() + i * ROWS, rows, weight);
      for (int q = 0; q < panel.count; q++) {
        results.top_weights[(row + q) * results.top + i] = weight[q];
        results.top_keys[(row + q) * results.top + i] = weight[q] > 0 ? topk->keys[i * ROWS + q] : -1;
      }
    }
  }

  void write_statistics(const QueryPanel& panel, int64_t row, const RowResults& rows) {
    alignas(64) float weight[ROWS];
    const struct { const float* scores; float* out; } places[] = {
        {state.shift, results.largest},
        {state.first, results.on_first},
        {state.self, results.on_self},
        {state.previous, results.on_previous},
        {state.next, results.on_next}};
    const size_t bytes = static_cast<size_t>(panel.count) * 4;
    for (const auto& place : places) {
      weights_of(place.scores, rows, weight);
      memcpy(place.out + row, weight, bytes);
    }
    memcpy(results.entropy + row, rows.entropy, bytes);
    memcpy(results.on_sink + row, rows.share, bytes);
    for (int q = 0; q < panel.count; q++) {
      results.largest_key[row + q] = results.largest[row + q] > 0 ? state.largest_key[q] : -1;
      results.distance[row + q] = state.distance[q] * rows.scale[q];
      results.on_future[row + q] = state.future[q] * rows.scale[q];
      results.on_padding[row + q] = state.padding[q] * rows.scale[q];
    }
  }

  void write_context(const QueryPanel& panel, const float* scale) {
    const int64_t* strides = results.context_strides;
    for (int q = 0; q < panel.count; q += 8) {
      const oct by = load8(scale + q);
      for (int64_t v = 0; v < wide; v += 8) {
        oct patch[8];
        for (int i = 0; i < 8; i++) patch[i] = load8(context.get() + (v + i) * ROWS + q) * by;
        transpose8(patch);
        const int64_t here = std::min<int64_t>(8, call.value_dim - v);
        for (int i = 0; i < std::min(8, panel.count - q); i++) {
          const int64_t at = panel.b * strides[0] + panel.h * strides[1] +
                             (panel.first + q + i) * strides[2] + v;
          write(at, patch[i], here);
        }
      }
    }
  }

  void write(int64_t at, oct numbers, int64_t count) {
    if (call.kind == FLOAT32) {
      float* out = static_cast<float*>(results.context) + at;
      if (count == 8) return store8(out, numbers);
      for (int64_t i = 0; i < count; i++) out[i] = numbers[i];
      return;
    }
    uint16_t* out = static_cast<uint16_t*>(results.context) + at;
    for (int64_t i = 0; i < count; i++)
      out[i] = call.kind == BFLOAT16 ? to_bfloat16(numbers[i]) : to_float16(numbers[i]);
  }
};

}  // namespace

Outcome observe(const Call& call, const ObservationPointers& results, Progress& progress) {
  // A task covers whole rows of cells, so that no two threads add to the same cell.
  const int64_t high = results.cell_sum ? std::lcm<int64_t>(ROWS, results.cell_rows) : ROWS;
  const int64_t rows = progress.last_row - progress.first_row;
  const int64_t down = (rows + high - 1) / high;
  auto make = [&](int) {
    auto observer = std::make_shared<Observer>(call, results);
    return [&, observer](int64_t task) {
      const int64_t head = task / down;
      // With a causal mask later rows take longer; the longest tasks go first, so that threads end
      // together.
      const int64_t first = progress.first_row + (down - 1 - task % down) * high;
      const int64_t stop = std::min(progress.last_row, first + high);
      for (int64_t q = first; q < stop; q += ROWS)
        observer->observe(head / call.heads, head % call.heads, q, stop);
    };
  };
  return run_tasks(call.threads, call.batch * call.heads * down, progress, make);
}

}  // namespace regard
