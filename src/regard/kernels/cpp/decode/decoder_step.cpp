// One token of each row through all layers of a decoder: few rows, so that reading the weights
// once is all that takes time.
#include <algorithm>
#include <cmath>

#include "int8.cpp"

namespace regard {
namespace decoding {

// With `scales` the matrix is of eight-bit numbers, each row with its scale.
struct Linear {
  const void* w;
  const float *scales, *bias;
  int64_t dim, outs;
};

enum NormKind : int64_t { NO_NORM = 0, LAYER_NORM = 1, RMS_NORM = 2 };
enum Activation : int64_t { RELU = 0, GELU = 1, GELU_TANH = 2, SILU = 3 };

struct Norm {
  const float *w, *bias;
  double eps;
  int64_t kind;
};

// `key` and `value` are those of the source, with strides of sentence, head and position.
struct Block {
  Linear joined, out, query, cross_out, up, gate, down;
  Norm own, cross, last;
  const float *key, *value;
  int64_t strides[3];
};

// What all layers share. `room` holds what was read before, with strides of layer, position, row
// and side (keys, then values): what a row reads at position p is in row table[p] of the room, so
// that rows may change places and nothing moves. cos and sin turn queries and keys, or are missing;
// `hidden` is added to the scores of the source, and `pads` positions of each row are padding.
struct Step {
  const Block* blocks;
  float *x, *logits, *scratch, *room;
  const float *hidden, *cos, *sin;
  const int64_t *pads, *table;
  int64_t room_strides[4], table_stride;
  Norm norm;
  Linear output;
  int64_t layers, rows, dim, wide, heads, key_heads, head_dim, start, source, each;
  int64_t norm_first, activation, halves, threads;
};

constexpr int64_t WORTH = 1 << 17;  // multiplications that make up for a ticket each

INLINE void put(float* p, vec x) { *reinterpret_cast<loose_vec*>(p) = (loose_vec)x; }

void product(const Linear& by, const float* x, float* y, const Step& step, Team& team) {
  if (by.scales)
    multiply_eight({x, static_cast<const int8_t*>(by.w), by.scales, by.bias, y, step.rows, by.dim,
                    by.outs, step.threads},
                   team);
  else
    multiply({x, static_cast<const float*>(by.w), by.bias, y, step.rows, by.dim, by.outs,
              step.threads},
             team);
}

void normalise(const Norm& norm, const float* x, float* y, const Step& step) {
  const int64_t dim = step.dim;
  for (int64_t row = 0; row < step.rows; row++, x += dim, y += dim) {
    double mean = 0.0, square = 0.0;
    if (norm.kind == LAYER_NORM) {
      for (int64_t i = 0; i < dim; i++) mean += x[i];
      mean /= static_cast<double>(dim);
    }
    const float middle = static_cast<float>(mean);
    for (int64_t i = 0; i < dim; i++) square += static_cast<double>(x[i] - middle) * (x[i] - middle);
    const float scale = static_cast<float>(1.0 / std::sqrt(square / static_cast<double>(dim) + norm.eps));
    for (int64_t i = 0; i < dim; i++)
      y[i] = (x[i] - middle) * scale * norm.w[i] + (norm.bias ? norm.bias[i] : 0.0f);
  }
}

// x cos + x' sin, x' having the two of each pair exchanged.
void turn(float* x, const Step& step) {
  const int64_t half = step.head_dim / 2;
  for (int64_t i = 0; i < half; i++) {
    const int64_t a = step.halves ? i : 2 * i, b = step.halves ? i + half : 2 * i + 1;
    const float first = x[a], second = x[b];
    x[a] = first * step.cos[a] + second * step.sin[a];
    x[b] = second * step.cos[b] + first * step.sin[b];
  }
}

INLINE float dot(const float* a, const float* b, int64_t dim) {
  vec sum = {};
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH) sum += load_any(a + d) * load_any(b + d);
  float total = lanes_of(sum);
  for (; d < dim; d++) total += a[d] * b[d];
  return total;
}

INLINE void add_scaled(float* y, const float* x, float scale, int64_t dim) {
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH) put(y + d, load_any(y + d) + load_any(x + d) * scale);
  for (; d < dim; d++) y[d] += x[d] * scale;
}

// softmax(q . k / sqrt(d)) v over positions from .. to of one head: place(p) is how far behind the
// first a key and its value are, and `scores` has room for them.
template <class Place>
void attend_one(const float* query, const float* key, const float* value, Place&& place,
                const float* hidden, int64_t from, int64_t to, int64_t dim, float* scores,
                float* context) {
  const float scale = LOG2E / std::sqrt(static_cast<float>(dim));
  float top = NEVER;
  for (int64_t p = from; p < to; p++) {
    float score = dot(query, key + place(p), dim) * scale;
    if (hidden) score += hidden[p];
    scores[p] = score;
    top = std::max(top, score);
  }
  float total = 0.0f;
  std::fill(context, context + dim, 0.0f);
  for (int64_t p = from; p < to; p++) {
    const float weight = scores[p] == NEVER ? 0.0f : exp2_of(scores[p] - top);
    total += weight;
    if (weight > 0.0f) add_scaled(context, value + place(p), weight, dim);
  }
  // NaN among the scores is NaN here; where nothing is seen, the context is zero.
  const float share = total > 0.0f || std::isnan(total) ? 1.0f / total : 0.0f;
  for (int64_t d = 0; d < dim; d++) context[d] *= share;
}

// Every head of every row, each with numbers of its own to write scores to.
template <class One>
void each_head(const Step& step, Team& team, int64_t length, One&& one) {
  const int64_t tasks = step.rows * step.heads;
  if (tasks * length * step.head_dim < WORTH) {
    for (int64_t task = 0; task < tasks; task++) one(task / step.heads, task % step.heads);
  } else {
    team.run(tasks, [&](int64_t task) { one(task / step.heads, task % step.heads); });
  }
}

// Turns the new queries and keys, writes the new keys and values into the room, and reads it.
void read_own(const Step& step, Team& team, int64_t layer, float* joined, float* scores,
              float* context) {
  const int64_t hd = step.head_dim, width = (step.heads + 2 * step.key_heads) * hd;
  const int64_t length = step.start + 1, group = step.heads / step.key_heads;
  const int64_t position = step.room_strides[1], line = step.room_strides[2];
  float* room = step.room + layer * step.room_strides[0];
  for (int64_t row = 0; row < step.rows; row++) {
    float* own = joined + row * width;
    if (step.cos)
      for (int64_t head = 0; head < step.heads + step.key_heads; head++) turn(own + head * hd, step);
    const size_t bytes = static_cast<size_t>(step.key_heads * hd) * sizeof(float);
    float* slot = room + row * line + step.start * position;
    std::memcpy(slot, own + step.heads * hd, bytes);
    std::memcpy(slot + step.room_strides[3], own + (step.heads + step.key_heads) * hd, bytes);
  }
  each_head(step, team, length, [&](int64_t row, int64_t head) {
    const int64_t* table = step.table + row * step.table_stride;
    const float* keys = room + head / group * hd;
    auto place = [&](int64_t p) { return p * position + table[p] * line; };
    attend_one(joined + row * width + head * hd, keys, keys + step.room_strides[3], place, nullptr,
               step.pads ? step.pads[row] : 0, length, hd,
               scores + (row * step.heads + head) * length, context + (row * step.heads + head) * hd);
  });
}

void read_source(const Step& step, Team& team, int64_t layer, const float* query, float* scores,
                 float* context) {
  const Block& block = step.blocks[layer];
  const int64_t hd = step.head_dim, group = step.heads / step.key_heads;
  each_head(step, team, step.source, [&](int64_t row, int64_t head) {
    const int64_t sentence = row / step.each;
    const int64_t at = sentence * block.strides[0] + head / group * block.strides[1];
    auto place = [&](int64_t p) { return p * block.strides[2]; };
    const float* hidden = step.hidden ? step.hidden + sentence * step.source : nullptr;
    attend_one(query + (row * step.heads + head) * hd, block.key + at, block.value + at, place,
               hidden, 0, step.source, hd, scores + (row * step.heads + head) * step.source,
               context + (row * step.heads + head) * hd);
  });
}

INLINE float activated(float x, int64_t kind) {
  switch (kind) {
    case RELU: return x < 0.0f ? 0.0f : x;
    case GELU: return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f));
    case GELU_TANH:
      return 0.5f * x * (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    default: return x / (1.0f + std::exp(-x));
  }
}

INLINE vec silu(vec x) { return x / (exp2(x * -LOG2E) + 1.0f); }

void activate(const Step& step, float* up, const float* gate, int64_t count) {
  int64_t i = 0;
  if (step.activation == SILU)
    for (; i + WIDTH <= count; i += WIDTH) {
      const vec x = silu(load_any((gate ? gate : up) + i));
      put(up + i, gate ? x * load_any(up + i) : x);
    }
  for (; i < count; i++)
    up[i] = gate ? activated(gate[i], step.activation) * up[i] : activated(up[i], step.activation);
}

void add(float* x, const float* y, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] += y[i];
}

// x becomes the vectors of the new tokens after the last layer.
void decode_with(const Step& step, Team& team) {
  const int64_t count = step.rows * step.dim;
  float *y = step.scratch, *wide = y + count, *gate = wide + step.rows * step.wide;
  float *context = gate + step.rows * step.wide, *scores = context + step.rows * step.heads * step.head_dim;
  // The vectors that a part reads: normalised before it, or as they are.
  auto before = [&](const Norm& norm) -> const float* {
    if (!step.norm_first) return step.x;
    normalise(norm, step.x, y, step);
    return y;
  };
  auto after = [&](const Norm& norm) {
    add(step.x, y, count);
    if (!step.norm_first) normalise(norm, step.x, step.x, step);
  };
  for (int64_t layer = 0; layer < step.layers; layer++) {
    const Block& block = step.blocks[layer];
    product(block.joined, before(block.own), wide, step, team);
    read_own(step, team, layer, wide, scores, context);
    product(block.out, context, y, step, team);
    after(block.own);
    if (block.query.w) {
      product(block.query, before(block.cross), wide, step, team);
      read_source(step, team, layer, wide, scores, context);
      product(block.cross_out, context, y, step, team);
      after(block.cross);
    }
    const float* x = before(block.last);
    product(block.up, x, wide, step, team);
    if (block.gate.w) product(block.gate, x, gate, step, team);
    activate(step, wide, block.gate.w ? gate : nullptr, step.rows * block.up.outs);
    product(block.down, wide, y, step, team);
    after(block.last);
  }
  if (step.norm.kind != NO_NORM) normalise(step.norm, step.x, step.x, step);
  if (step.output.w) product(step.output, step.x, step.logits, step, team);
}

void decode(const Step& step) {
  with_team(step.threads, [&](Team& team) { decode_with(step, team); });
}

// One reading of one layer alone, for rows that are too many to be multiplied here: `x` are its
// queries, with keys and values behind them where it reads its own text.
void read(const Step& step, int64_t layer, float* x, float* context, bool own) {
  with_team(step.threads, [&](Team& team) {
    if (own) read_own(step, team, layer, x, step.scratch, context);
    else read_source(step, team, layer, x, step.scratch, context);
  });
}

}  // namespace decoding
}  // namespace regard
