// Attention in one pass over blocks of queries and keys, and what it saw on the way.
#include "passes.h"

#include <numeric>

#include "atlas.h"
#include "row_topk.h"
#include "../shared/parallel.h"

namespace regard {

namespace {

// What one thread needs to observe.
struct Observer {
  const Call& call;
  const Kept& kept;
  bool statistics;
  int64_t wide;  // values of a row, filled up to whole tiles
  Scratch own;
  Buffer<> value, context;
  State state;
  Buffer<> tiles;
  std::unique_ptr<Best> best;
  std::unique_ptr<Atlas> atlas;

  Observer(const Call& call, const Kept& kept)
      : call(call),
        kept(kept),
        statistics(kept.entropy != nullptr),
        wide(round_up(call.value_dim, TILE)),
        own(call),
        value(buffer(COLUMNS * wide)),
        context(buffer(wide * ROWS)),
        tiles(buffer(2 * TILES * ROWS)) {
    state.tile_max = tiles.get();
    state.tile_sum = tiles.get() + TILES * ROWS;
    if (kept.top) best.reset(new Best(kept.top));
    if (kept.cell_sum) atlas.reset(new Atlas(call, kept));
  }

  void observe(int64_t b, int64_t h, int64_t first, int64_t stop) {
    const Panel panel = open_panel(call, b, h, first, stop, own);
    const std::pair<int64_t, int64_t> blocks = reach(call, panel);
    state.clear();
    if (best) best->clear();
    memset(context.get(), 0, static_cast<size_t>(wide * ROWS) * 4);
    for (int64_t block = blocks.first; block < blocks.second; block++) {
      const int64_t keys = std::min<int64_t>(COLUMNS, call.keys - block * COLUMNS);
      if (atlas) atlas->open(block, state);
      const bool seen = block_scores(call, panel, block * COLUMNS, keys, own);
      if (seen) observe_block(panel, block * COLUMNS, keys);
      const int tiles = seen ? static_cast<int>(round_up(keys, TILE) / TILE) : 0;
      if (atlas) atlas->note(block, tiles, state);
    }
    finish(panel, blocks);
  }

  void observe_block(const Panel& panel, int64_t first_key, int64_t keys) {
    float* scores = own.scores.get();
    const int tiles = static_cast<int>(round_up(keys, TILE) / TILE);
    find_maxima(scores, tiles, panel.vectors, state);
    if (best) best->note(scores, first_key, tiles, panel.vectors, state);
    if (statistics) {
      note_largest(scores, first_key, tiles, panel.count, state);
      note_places(scores, panel, first_key, keys, state);
      weigh<true>(scores, panel, first_key, tiles, state);
      if (call.padded)
        note_padding(scores, call.padded + panel.b * call.keys + first_key, keys, panel.vectors,
                     state);
    } else {
      weigh<false>(scores, panel, first_key, tiles, state);
    }
    if (!kept.context) return;
    const int64_t head = panel.h / (call.heads / call.key_heads);
    const int64_t base = panel.b * call.value.strides[0] + head * call.value.strides[1];
    const int64_t filled = round_up(keys, TILE);
    const Rows rows = rows_of(call.value, call.kind, base, first_key, keys, filled, call.value_dim,
                              wide, value.get());
    contexts(rows, scores, wide, filled, panel.vectors, state.fade, context.get());
  }

  // Sums become shares when the whole row is known; scale does it, and share is the sink's.
  struct alignas(64) Ends : Totals {
    float scale[ROWS], share[ROWS], entropy[ROWS];
  };

  void finish(const Panel& panel, std::pair<int64_t, int64_t> blocks) {
    Ends ends;
    const int64_t row = (panel.b * call.heads + panel.h) * call.queries + panel.first;
    const float sink = call.sink ? call.sink[panel.h] * LOG2E : NEVER;
    for (int q = 0; q < ROWS; q++) {
      end_row(q, q < panel.count ? sink : NEVER, q < panel.count, ends);
      if (q < panel.count)
        kept.lse[row + q] = ends.high[q] == INFINITY ? NEVER : (ends.high[q] + ends.log[q]) * LN2;
    }
    if (best) write_best(panel, row, ends);
    if (statistics) write_statistics(panel, row, ends);
    if (kept.context) write_context(panel, ends.scale);
    if (atlas) atlas->fold(call, kept, panel, blocks, ends);
  }

  void end_row(int q, float sink, bool real, Ends& ends) {
    ends.high[q] = INFINITY;
    ends.log[q] = ends.inverse[q] = 0.0f;
    ends.scale[q] = ends.share[q] = ends.entropy[q] = 0.0f;
    const float high = std::max(state.shift[q], sink);
    if (!real || high == NEVER) return;
    float fade = state.shift[q] == high ? 1.0f : 0.0f, share = sink == high ? 1.0f : 0.0f;
    if (sink < high && sink != NEVER) share = exp2_of(sink - high);
    if (state.shift[q] < high && state.shift[q] != NEVER) fade = exp2_of(state.shift[q] - high);
    const float total = state.total[q] * fade + share, log = log2f(total);
    float surprise = 0.0f;
    if (fade > 0) surprise += fade * (state.surprise[q] + state.total[q] * (state.shift[q] - high));
    if (share > 0) surprise += share * (sink - high);
    ends.high[q] = high;
    ends.log[q] = log;
    ends.inverse[q] = 1.0f / total;
    ends.scale[q] = fade / total;
    ends.share[q] = share / total;
    ends.entropy[q] = LN2 * (log - surprise / total);
  }

  static void weights_of(const float* scores, const Ends& ends, float* out) {
    for (int q = 0; q < ROWS; q += WIDTH)
      store(out + q, exp2(load(scores + q) - load(ends.high + q)) * load(ends.inverse + q));
  }

  void write_best(const Panel& panel, int64_t row, const Ends& ends) {
    alignas(64) float weight[ROWS];
    for (int i = 0; i < best->top; i++) {
      weights_of(best->scores.get() + i * ROWS, ends, weight);
      for (int q = 0; q < panel.count; q++) {
        kept.top_weights[(row + q) * kept.top + i] = weight[q];
        kept.top_keys[(row + q) * kept.top + i] = weight[q] > 0 ? best->keys[i * ROWS + q] : -1;
      }
    }
  }

  void write_statistics(const Panel& panel, int64_t row, const Ends& ends) {
    alignas(64) float weight[ROWS];
    const struct { const float* scores; float* out; } places[] = {
        {state.shift, kept.largest},     {state.first, kept.on_first}, {state.self, kept.on_self},
        {state.previous, kept.on_previous}, {state.next, kept.on_next}};
    const size_t bytes = static_cast<size_t>(panel.count) * 4;
    for (const auto& place : places) {
      weights_of(place.scores, ends, weight);
      memcpy(place.out + row, weight, bytes);
    }
    memcpy(kept.entropy + row, ends.entropy, bytes);
    memcpy(kept.on_sink + row, ends.share, bytes);
    for (int q = 0; q < panel.count; q++) {
      kept.largest_key[row + q] = kept.largest[row + q] > 0 ? state.largest_key[q] : -1;
      kept.distance[row + q] = state.distance[q] * ends.scale[q];
      kept.on_future[row + q] = state.future[q] * ends.scale[q];
      kept.on_padding[row + q] = state.padding[q] * ends.scale[q];
    }
  }

  void write_context(const Panel& panel, const float* scale) {
    const int64_t* strides = kept.context_strides;
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
      float* out = static_cast<float*>(kept.context) + at;
      if (count == 8) return store8(out, numbers);
      for (int64_t i = 0; i < count; i++) out[i] = numbers[i];
      return;
    }
    uint16_t* out = static_cast<uint16_t*>(kept.context) + at;
    for (int64_t i = 0; i < count; i++)
      out[i] = call.kind == BFLOAT16 ? to_bfloat16(numbers[i]) : to_float16(numbers[i]);
  }
};

}  // namespace

Outcome observe(const Call& call, const Kept& kept, Progress& progress) {
  // A row of cells belongs to one task alone.
  const int64_t high = kept.cell_sum ? std::lcm<int64_t>(ROWS, kept.cell_rows) : ROWS;
  const int64_t rows = progress.last_row - progress.first_row;
  const int64_t down = (rows + high - 1) / high;
  auto make = [&](int) {
    auto observer = std::make_shared<Observer>(call, kept);
    return [&, observer](int64_t task) {
      const int64_t head = task / down;
      // With causal attention later rows are longer, and longer tasks go first.
      const int64_t first = progress.first_row + (down - 1 - task % down) * high;
      const int64_t stop = std::min(progress.last_row, first + high);
      for (int64_t q = first; q < stop; q += ROWS)
        observer->observe(head / call.heads, head % call.heads, q, stop);
    };
  };
  return run_tasks(call.threads, call.batch * call.heads * down, progress, make);
}

}  // namespace regard
