// Weights of an earlier call, recomputed from queries, keys and the logsumexp of each row.
#include "passes.h"

#include "../shared/parallel.h"
#include "scores.h"

namespace regard {

namespace {

// The base-2 logsumexp of a panel's rows; infinite for a row without any weight.
struct alignas(64) RowLogSumExp {
  float of[ROWS];
  RowLogSumExp(const Call& call, const QueryPanel& panel, const float* lse) {
    const float* own = lse + (panel.b * call.heads + panel.h) * call.queries + panel.first;
    for (int q = 0; q < ROWS; q++)
      of[q] = q < panel.count && own[q] != NEVER ? own[q] * LOG2E : INFINITY;
  }
};

// Pools the exact weights of one rectangle of one head to cells.
struct RegionPooler {
  const Call& call;
  const RegionPointers& region;
  int64_t across;
  Scratch own;
  Buffer<> sums, maxima;  // [across][ROWS]

  RegionPooler(const Call& call, const RegionPointers& region)
      : call(call),
        region(region),
        across((region.last_column - region.first_column + region.zoom - 1) / region.zoom),
        own(call),
        sums(buffer(across * ROWS)),
        maxima(buffer(across * ROWS)) {}

  void pool_rows(int64_t first, int64_t stop) {
    const QueryPanel panel = load_panel(call, region.example, region.head, first, stop, own);
    const RowLogSumExp lse(call, panel, region.lse);
    memset(sums.get(), 0, static_cast<size_t>(across * ROWS) * 4);
    memset(maxima.get(), 0, static_cast<size_t>(across * ROWS) * 4);
    const std::pair<int64_t, int64_t> blocks = reach(call, panel);
    const int64_t low = std::max(region.first_column, blocks.first * COLUMNS);
    const int64_t high = std::min(region.last_column, blocks.second * COLUMNS);
    for (int64_t j = low; j < high; j += COLUMNS) {
      const int64_t keys = std::min<int64_t>(COLUMNS, high - j);
      if (block_scores(call, panel, j, keys, own)) pool(panel, j, keys, lse.of);
    }
    write(panel, lse.of);
  }

  void pool(const QueryPanel& panel, int64_t first_key, int64_t keys, const float* lse) {
    const float* scores = own.scores.get();
    for (int64_t k = 0; k < keys;) {
      const int64_t cell = (first_key + k - region.first_column) / region.zoom;
      const int64_t end = region.first_column + (cell + 1) * region.zoom - first_key;
      const int64_t stop = std::min(keys, end);
      for (int q = 0; q < panel.vectors * WIDTH; q += WIDTH) {
        vec sum = load(sums.get() + cell * ROWS + q), high = load(maxima.get() + cell * ROWS + q);
        for (int64_t one = k; one < stop; one++) {
          const vec weight = exp2(load(scores + one * ROWS + q) - load(lse + q));
          sum += weight;
          high = larger(high, weight);
        }
        store(sums.get() + cell * ROWS + q, sum);
        store(maxima.get() + cell * ROWS + q, high);
      }
      k = stop;
    }
  }

  // A row whose logsumexp is NaN makes all of its cells NaN, those out of its reach included.
  void write(const QueryPanel& panel, const float* lse) {
    for (int q = 0; q < panel.count; q++) {
      const int64_t row = (panel.first + q - region.first_row) / region.zoom * across;
      for (int64_t cell = 0; cell < across; cell++) {
        const float sum = std::isnan(lse[q]) ? NAN : sums[cell * ROWS + q];
        float& largest = region.largest[row + cell];
        region.sum[row + cell] += sum;
        // The maximum may have missed a NaN among the weights, the sum has not.
        largest = std::isnan(sum) ? sum : std::max(largest, maxima[cell * ROWS + q]);
      }
    }
  }
};

// Sums each key's column of weights, and each row's weight on each label of keys.
struct ReceivedSummer {
  const Call& call;
  const ReceivedPointers& received;
  Scratch own;
  Buffer<> columns, labels;  // [keys], [labels][ROWS]

  ReceivedSummer(const Call& call, const ReceivedPointers& received)
      : call(call),
        received(received),
        own(call),
        columns(buffer(round_up(call.keys, TILE))),
        labels(buffer((received.label_count + 1) * ROWS)) {}

  void sum_rows(int64_t b, int64_t h, int64_t first, int64_t stop) {
    memset(columns.get(), 0, static_cast<size_t>(round_up(call.keys, TILE)) * 4);
    for (int64_t q = first; q < stop; q += ROWS) {
      const QueryPanel panel = load_panel(call, b, h, q, stop, own);
      const RowLogSumExp lse(call, panel, received.lse);
      memset(labels.get(), 0, static_cast<size_t>(received.label_count * ROWS) * 4);
      const std::pair<int64_t, int64_t> blocks = reach(call, panel);
      for (int64_t block = blocks.first; block < blocks.second; block++) {
        const int64_t j = block * COLUMNS, keys = std::min<int64_t>(COLUMNS, call.keys - j);
        if (!block_scores(call, panel, j, keys, own)) continue;
        add_columns(panel, j, round_up(keys, TILE), lse.of);
        if (received.labels) add_labels(panel, received.labels + b * call.keys + j, keys);
      }
      if (received.labels) write_labels(panel, lse.of);
      // A row without a softmax is NaN for every key, those out of its reach included.
      if (std::any_of(lse.of, lse.of + panel.count, [](float x) { return std::isnan(x); }))
        std::fill_n(columns.get(), call.keys, NAN);
    }
    double* total = received.total + (b * call.heads + h) * call.keys;
    std::lock_guard<std::mutex> lock(received_lock());
    for (int64_t j = 0; j < call.keys; j++) total[j] += columns[j];
  }

  static std::mutex& received_lock() {
    static std::mutex lock;
    return lock;
  }

  void add_columns(const QueryPanel& panel, int64_t first_key, int64_t keys, const float* lse) {
    float* scores = own.scores.get();
    for (int64_t k = 0; k < keys; k += TILE) {
      alignas(64) float lanes[TILE][16] = {};
      for (int i = 0; i < TILE; i++) {
        vec sum = {};
        float* row = scores + (k + i) * ROWS;
        for (int q = 0; q < panel.vectors * WIDTH; q += WIDTH) {
          const vec weight = exp2(load(row + q) - load(lse + q));
          store(row + q, weight);
          sum += weight;
        }
        store(lanes[i], sum);
      }
      hex sums[TILE];
      for (int i = 0; i < TILE; i++) sums[i] = load16(lanes[i]);
      const hex halves = reduce_halves<Add>(sums);
      float* out = columns.get() + first_key + k;
      for (int i = 0; i < TILE; i++) out[i] += halves[i] + halves[i + 8];
    }
  }

  void add_labels(const QueryPanel& panel, const int32_t* label, int64_t keys) {
    for (int64_t k = 0; k < keys; k++) {
      if (label[k] < 0) continue;
      const float* weight = own.scores.get() + k * ROWS;
      float* out = labels.get() + static_cast<int64_t>(label[k]) * ROWS;
      for (int q = 0; q < panel.vectors * WIDTH; q += WIDTH)
        store(out + q, load(out + q) + load(weight + q));
    }
  }

  void write_labels(const QueryPanel& panel, const float* lse) {
    const int64_t row = (panel.b * call.heads + panel.h) * call.queries + panel.first;
    for (int q = 0; q < panel.count; q++)
      for (int64_t l = 0; l < received.label_count; l++)
        received.by_label[(row + q) * received.label_count + l] =
            std::isnan(lse[q]) ? NAN : labels[l * ROWS + q];
  }
};

}  // namespace

Outcome pool_region(const Call& call, const RegionPointers& region, Progress& progress) {
  // A task covers whole rows of cells, so that no two threads add to the same cell.
  const int64_t high = region.zoom * std::max<int64_t>(1, ROWS / region.zoom);
  const int64_t rows = progress.last_row - progress.first_row;
  auto make = [&](int) {
    auto pooler = std::make_shared<RegionPooler>(call, region);
    return [&, pooler](int64_t task) {
      const int64_t first = progress.first_row + task * high;
      const int64_t stop = std::min(progress.last_row, first + high);
      for (int64_t q = first; q < stop; q += ROWS) pooler->pool_rows(q, stop);
    };
  };
  return run_tasks(call.threads, (rows + high - 1) / high, progress, make);
}

Outcome sum_received(const Call& call, const ReceivedPointers& received, Progress& progress) {
  constexpr int64_t high = 8 * ROWS;  // enough rows that adding a task's columns to the total costs little
  const int64_t rows = progress.last_row - progress.first_row, down = (rows + high - 1) / high;
  auto make = [&](int) {
    auto summer = std::make_shared<ReceivedSummer>(call, received);
    return [&, summer](int64_t task) {
      const int64_t head = task / down;
      const int64_t first = progress.first_row + (down - 1 - task % down) * high;
      summer->sum_rows(head / call.heads, head % call.heads, first,
                     std::min(progress.last_row, first + high));
    };
  };
  return run_tasks(call.threads, call.batch * call.heads * down, progress, make);
}

}  // namespace regard
