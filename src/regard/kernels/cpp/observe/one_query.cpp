// Attention of a single query over all keys, with its statistics: one step of decoding.
// Queries of a block share vectors in observe.cpp; a single one would leave most lanes empty, so here
// vectors lie along the width of keys and values, and along the keys of a row of weights.
#include "one_query.h"

#include "../shared/parallel.h"
#include "blocks.h"

namespace regard {

namespace {

constexpr int64_t WORK_OF_A_THREAD = 1 << 18;  // products below which a second thread does not pay
constexpr int64_t KEYS_OF_A_SUM = 256;         // keys that are summed up before they join the others

size_t bytes_of(int32_t kind) { return kind == FLOAT32 ? 4 : 2; }

const char* at(const void* data, int64_t place, int32_t kind) {
  return static_cast<const char*>(data) + place * static_cast<int64_t>(bytes_of(kind));
}

// The buffers of one thread.
struct OneQueryObserver {
  const OneQuery& call;
  int32_t kind;
  int64_t wide, value_wide;  // widths rounded up to whole vectors
  Buffer<> query, row, scores, sum, context;

  explicit OneQueryObserver(const OneQuery& call)
      : call(call),
        kind(static_cast<int32_t>(call.kind)),
        wide(round_up(call.dim, WIDTH)),
        value_wide(round_up(call.value_dim, WIDTH)),
        query(buffer(wide)),
        row(buffer(std::max(wide, value_wide))),
        scores(buffer(round_up(call.keys, WIDTH))),
        sum(buffer(value_wide)),
        context(buffer(value_wide)) {
    memset(row.get(), 0, static_cast<size_t>(std::max(wide, value_wide)) * 4);
  }

  // A row of keys or values as float32, padded with zeros to whole vectors where it has to be copied.
  const float* load(const void* data, int64_t place, int64_t dim, int64_t padded) {
    if (kind == FLOAT32 && dim == padded) return static_cast<const float*>(data) + place;
    load_row(data, kind, place, dim, row.get());
    for (int64_t d = dim; d < padded; d++) row[d] = 0.0f;
    return row.get();
  }

  // False if a score is not a finite number: such a row has no softmax.
  bool observe(int64_t h) {
    memset(query.get(), 0, static_cast<size_t>(wide) * 4);
    load_row(call.query, kind, h * call.query_stride, call.dim, query.get());
    for (int64_t d = 0; d < wide; d++) query[d] *= static_cast<float>(call.scale) * LOG2E;
    const int64_t shared = h / (call.heads / call.key_heads);
    const float high = score_keys(shared * call.key_strides[0]);
    if (!(high < INFINITY) || high == NEVER) return false;
    return finish(h, high) && (!call.context || write_context(h, shared * call.value_strides[0]));
  }

  float score_keys(int64_t base) {
    float high = NEVER;
    bool defined = true;
    for (int64_t k = 0; k < call.keys; k++) {
      const float* key = load(call.key, base + k * call.key_strides[1], call.dim, wide);
      vec one{}, other{};
      int64_t d = 0;
      for (; d + 2 * WIDTH <= wide; d += 2 * WIDTH) {
        one += regard::load(query.get() + d) * load_unaligned(key + d);
        other += regard::load(query.get() + d + WIDTH) * load_unaligned(key + d + WIDTH);
      }
      if (d < wide) one += regard::load(query.get() + d) * load_unaligned(key + d);
      const float score = sum_lanes(one + other);
      defined &= score == score;
      high = std::max(high, score);
      scores[k] = score;
    }
    for (int64_t k = call.keys; k < round_up(call.keys, WIDTH); k++) scores[k] = NEVER;
    return defined ? high : INFINITY;
  }

  // Turn the scores into weights, and write the numbers of the row.
  bool finish(int64_t h, float high) {
    const int64_t last = call.keys - 1;
    int64_t largest_key = 0;
    while (scores[largest_key] != high) largest_key++;
    vec total{}, surprise{}, distance{}, back;
    for (int i = 0; i < WIDTH; i++) back[i] = static_cast<float>(last - i);
    for (int64_t k = 0; k < call.keys; k += WIDTH) {
      const vec shifted = regard::load(scores.get() + k) - high, weight = exp2(shifted);
      store(scores.get() + k, weight);
      total += weight;
      surprise += weight * larger(shifted, splat(-1e4f));  // a hidden key would be 0 x -infinity
      distance += weight * back;
      back -= static_cast<float>(WIDTH);
    }
    const float all = sum_lanes(total), inverse = 1.0f / all, log = log2f(all);
    const float numbers[] = {(high + log) * LN2,
                             LN2 * (log - sum_lanes(surprise) * inverse),
                             inverse,
                             sum_lanes(distance) * inverse,
                             scores[0] * inverse,
                             scores[last] * inverse,
                             last ? scores[last - 1] * inverse : 0.0f,
                             0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < 11; i++) call.numbers[i * call.heads + h] = numbers[i];
    const int32_t key = static_cast<int32_t>(largest_key);
    memcpy(call.numbers + 11 * call.heads + h, &key, 4);
    for (int64_t k = 0; k < call.keys; k += WIDTH)
      store(scores.get() + k, regard::load(scores.get() + k) * inverse);
    return all < INFINITY;
  }

  bool write_context(int64_t h, int64_t base) {
    memset(context.get(), 0, static_cast<size_t>(value_wide) * 4);
    for (int64_t first = 0; first < call.keys; first += KEYS_OF_A_SUM) {
      memset(sum.get(), 0, static_cast<size_t>(value_wide) * 4);
      const int64_t stop = std::min(call.keys, first + KEYS_OF_A_SUM);
      if (kind == FLOAT32 && call.value_dim == 4 * WIDTH) add_values<4>(base, first, stop);
      else if (kind == FLOAT32 && call.value_dim == 8 * WIDTH) add_values<8>(base, first, stop);
      else add_any_values(base, first, stop);
      for (int64_t v = 0; v < value_wide; v += WIDTH)
        store(context.get() + v, regard::load(context.get() + v) + regard::load(sum.get() + v));
    }
    char* out = static_cast<char*>(call.context) +
                h * call.value_dim * static_cast<int64_t>(bytes_of(kind));
    if (kind == FLOAT32) {
      memcpy(out, context.get(), static_cast<size_t>(call.value_dim) * 4);
      return true;
    }
    uint16_t* halves = reinterpret_cast<uint16_t*>(out);
    for (int64_t v = 0; v < call.value_dim; v++)
      halves[v] = kind == BFLOAT16 ? to_bfloat16(context[v]) : to_float16(context[v]);
    return true;
  }

  // Values as wide as C vectors: their sum stays in registers.
  template <int C>
  void add_values(int64_t base, int64_t first, int64_t stop) {
    vec sums[C] = {};
    for (int64_t k = first; k < stop; k++) {
      const float* value =
          static_cast<const float*>(call.value) + base + k * call.value_strides[1];
      const vec weight = splat(scores[k]);
#pragma GCC unroll 8
      for (int c = 0; c < C; c++) sums[c] += weight * load_unaligned(value + c * WIDTH);
    }
    for (int c = 0; c < C; c++) store(sum.get() + c * WIDTH, sums[c]);
  }

  void add_any_values(int64_t base, int64_t first, int64_t stop) {
    for (int64_t k = first; k < stop; k++) {
      const float* value =
          load(call.value, base + k * call.value_strides[1], call.value_dim, value_wide);
      const vec weight = splat(scores[k]);
      for (int64_t v = 0; v < value_wide; v += WIDTH)
        store(sum.get() + v, regard::load(sum.get() + v) + weight * load_unaligned(value + v));
    }
  }
};

// True if the key before the newest is the one that was the newest at the step before.
bool continues(const OneQuery& call) {
  if (call.keys < 2) return false;
  const int32_t kind = static_cast<int32_t>(call.kind);
  const size_t bytes = static_cast<size_t>(call.dim) * bytes_of(kind);
  for (int64_t h = 0; h < call.key_heads; h++) {
    const int64_t place = h * call.key_strides[0] + (call.keys - 2) * call.key_strides[1];
    if (memcmp(at(call.key, place, kind), at(call.last_key, h * call.dim, kind), bytes))
      return false;
  }
  return true;
}

void copy_rows(const OneQuery& call) {
  const int32_t kind = static_cast<int32_t>(call.kind);
  const size_t bytes = static_cast<size_t>(call.dim) * bytes_of(kind);
  for (int64_t h = 0; h < call.heads; h++)
    memcpy(const_cast<char*>(at(call.query_copy, h * call.dim, kind)),
           at(call.query, h * call.query_stride, kind), bytes);
  for (int64_t h = 0; h < call.key_heads; h++) {
    const int64_t place = h * call.key_strides[0] + (call.keys - 1) * call.key_strides[1];
    memcpy(const_cast<char*>(at(call.key_copy, h * call.dim, kind)),
           at(call.key, place, kind), bytes);
  }
}

}  // namespace

StepOutcome observe_one_query(const OneQuery& call) {
  if (!continues(call)) return OTHER_KEYS;
  const int64_t work = call.heads * call.keys * (call.dim + call.value_dim);
  const int64_t useful = std::min<int64_t>(call.heads, 1 + work / WORK_OF_A_THREAD);
  std::atomic<int64_t> next{0};
  std::atomic<int> outcome{OBSERVED};
  on_threads(static_cast<int>(std::min<int64_t>(call.threads, useful)), [&](int) {
    try {
      OneQueryObserver observer(call);
      for (int64_t h; (h = next.fetch_add(1)) < call.heads;)
        if (!observer.observe(h)) outcome = UNDEFINED;
    } catch (const std::bad_alloc&) {
      outcome = UNDEFINED;  // the caller then takes the general way, which reports it
    }
  });
  if (outcome == OBSERVED) copy_rows(call);
  return static_cast<StepOutcome>(outcome.load());
}

}  // namespace regard
