// One token of each row through all layers of a decoder. There are few rows, so nearly all of the
// time is spent reading the weights from memory, once per token.
#include <algorithm>
#include <cmath>

#include "int8.cpp"

namespace regard {
namespace decoder {

// The structures are those of kernels/decode/decoder_step.py, field by field.

// x W^T + b. With `scales`, the weights are 8-bit integers and each row of W has a scale.
struct Linear {
  const void* weight;
  const float *scales, *bias;
  int64_t in_features, out_features;
};

enum NormKind : int64_t { NO_NORM = 0, LAYER_NORM = 1, RMS_NORM = 2 };
enum Activation : int64_t { RELU = 0, GELU = 1, GELU_TANH = 2, SILU = 3 };

struct Norm {
  const float *weight, *bias;
  double eps;
  int64_t kind;
};

// The parameters of a layer. `source_key` and `source_value` are the projected keys and values of
// the source text, with strides of sentence, head and position.
struct DecoderLayer {
  Linear qkv, self_out, cross_query, cross_out, up, gate, down;
  Norm self_norm, cross_norm, ffn_norm;
  const float *source_key, *source_value;
  int64_t source_strides[3];
};

// What all layers share. `cache` holds keys and values of earlier positions, with strides of layer,
// position, cache row and side (keys, then values). At position p a row of the batch reads the cache
// row cache_rows[p], so that beams change places without anything being copied. cos and sin are the
// rotary factors of the new position, or null; `source_bias` is added to the scores of the source,
// and the first `padding` positions of each row are padding.
struct DecoderStep {
  const DecoderLayer* layers;
  float *x, *logits, *scratch, *cache;
  const float *source_bias, *cos, *sin;
  const int64_t *padding, *cache_rows;
  int64_t cache_strides[4], cache_rows_stride;
  Norm final_norm;
  Linear output;
  int64_t layer_count, rows, dim, max_width, heads, key_heads, head_dim;
  int64_t position, source_length, rows_per_source;
  int64_t norm_first, activation, rotary_halves, threads;
};

// Below this many multiplications, handing heads to other threads costs more than it saves.
constexpr int64_t MIN_SHARED_PRODUCTS = 1 << 17;

INLINE void store_unaligned(float* p, vec x) { *reinterpret_cast<loose_vec*>(p) = (loose_vec)x; }

void multiply(const Linear& linear, const float* x, float* y, const DecoderStep& step,
              WorkerPool& pool) {
  if (linear.scales)
    matvec_int8({x, static_cast<const int8_t*>(linear.weight), linear.scales, linear.bias, y,
                 step.rows, linear.in_features, linear.out_features, step.threads},
                pool);
  else
    matvec({x, static_cast<const float*>(linear.weight), linear.bias, y, step.rows,
            linear.in_features, linear.out_features, step.threads},
           pool);
}

void normalise(const Norm& norm, const float* x, float* y, const DecoderStep& step) {
  const int64_t dim = step.dim;
  for (int64_t row = 0; row < step.rows; row++, x += dim, y += dim) {
    double sum = 0.0, square = 0.0;
    if (norm.kind == LAYER_NORM) {
      for (int64_t i = 0; i < dim; i++) sum += x[i];
      sum /= static_cast<double>(dim);
    }
    const float mean = static_cast<float>(sum);  // 0 for RMSNorm, which does not centre
    for (int64_t i = 0; i < dim; i++) square += static_cast<double>(x[i] - mean) * (x[i] - mean);
    const float scale = static_cast<float>(1.0 / std::sqrt(square / static_cast<double>(dim) + norm.eps));
    for (int64_t i = 0; i < dim; i++)
      y[i] = (x[i] - mean) * scale * norm.weight[i] + (norm.bias ? norm.bias[i] : 0.0f);
  }
}

// Rotate one head's vector in place: x cos + x' sin, where x' has the two of each pair exchanged.
void rotate(float* x, const DecoderStep& step) {
  const int64_t half = step.head_dim / 2;
  for (int64_t i = 0; i < half; i++) {
    const int64_t a = step.rotary_halves ? i : 2 * i, b = step.rotary_halves ? i + half : 2 * i + 1;
    const float first = x[a], second = x[b];
    x[a] = first * step.cos[a] + second * step.sin[a];
    x[b] = second * step.cos[b] + first * step.sin[b];
  }
}

INLINE float dot(const float* a, const float* b, int64_t dim) {
  vec sum = {};
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH) sum += load_unaligned(a + d) * load_unaligned(b + d);
  float total = sum_lanes(sum);
  for (; d < dim; d++) total += a[d] * b[d];
  return total;
}

INLINE void add_scaled(float* y, const float* x, float scale, int64_t dim) {
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH)
    store_unaligned(y + d, load_unaligned(y + d) + load_unaligned(x + d) * scale);
  for (; d < dim; d++) y[d] += x[d] * scale;
}

// softmax(q . k / sqrt(d)) v over the positions from .. to - 1 of one head. offset(p) is how many
// floats position p lies behind the start of `key` and `value`; `scores` has room for `to` numbers.
template <class Offset>
void attend_head(const float* query, const float* key, const float* value, Offset&& offset,
                 const float* bias, int64_t from, int64_t to, int64_t dim, float* scores,
                 float* context) {
  const float scale = LOG2E / std::sqrt(static_cast<float>(dim));
  float top = NEVER;
  for (int64_t p = from; p < to; p++) {
    float score = dot(query, key + offset(p), dim) * scale;
    if (bias) score += bias[p];
    scores[p] = score;
    top = std::max(top, score);
  }
  float total = 0.0f;
  std::fill(context, context + dim, 0.0f);
  for (int64_t p = from; p < to; p++) {
    const float weight = scores[p] == NEVER ? 0.0f : exp2_of(scores[p] - top);
    total += weight;
    if (weight > 0.0f) add_scaled(context, value + offset(p), weight, dim);
  }
  // NaN among the scores gives a context of NaN; a row that sees nothing gives zeros.
  const float share = total > 0.0f || std::isnan(total) ? 1.0f / total : 0.0f;
  for (int64_t d = 0; d < dim; d++) context[d] *= share;
}

// Call run(row, head) for every head of every row, on several threads if there is enough work.
template <class Run>
void for_each_head(const DecoderStep& step, WorkerPool& pool, int64_t length, Run&& run) {
  const int64_t tasks = step.rows * step.heads;
  if (tasks * length * step.head_dim < MIN_SHARED_PRODUCTS) {
    for (int64_t task = 0; task < tasks; task++) run(task / step.heads, task % step.heads);
  } else {
    pool.run(tasks, [&](int64_t task) { run(task / step.heads, task % step.heads); });
  }
}

// Self-attention: rotates the new queries and keys, writes the new keys and values into the cache,
// and attends to all positions of the cache.
void attend_self(const DecoderStep& step, WorkerPool& pool, int64_t layer, float* qkv,
                 float* scores, float* context) {
  const int64_t hd = step.head_dim, width = (step.heads + 2 * step.key_heads) * hd;
  const int64_t length = step.position + 1, group = step.heads / step.key_heads;
  const int64_t per_position = step.cache_strides[1], per_row = step.cache_strides[2];
  float* cache = step.cache + layer * step.cache_strides[0];
  for (int64_t row = 0; row < step.rows; row++) {
    float* own = qkv + row * width;
    if (step.cos)
      for (int64_t head = 0; head < step.heads + step.key_heads; head++) rotate(own + head * hd, step);
    const size_t bytes = static_cast<size_t>(step.key_heads * hd) * sizeof(float);
    float* slot = cache + row * per_row + step.position * per_position;
    std::memcpy(slot, own + step.heads * hd, bytes);
    std::memcpy(slot + step.cache_strides[3], own + (step.heads + step.key_heads) * hd, bytes);
  }
  for_each_head(step, pool, length, [&](int64_t row, int64_t head) {
    const int64_t* rows = step.cache_rows + row * step.cache_rows_stride;
    const float* keys = cache + head / group * hd;
    auto offset = [&](int64_t p) { return p * per_position + rows[p] * per_row; };
    attend_head(qkv + row * width + head * hd, keys, keys + step.cache_strides[3], offset, nullptr,
                step.padding ? step.padding[row] : 0, length, hd,
                scores + (row * step.heads + head) * length,
                context + (row * step.heads + head) * hd);
  });
}

// Cross-attention to the source text; several rows (beams) share one sentence.
void attend_source(const DecoderStep& step, WorkerPool& pool, int64_t layer, const float* query,
                   float* scores, float* context) {
  const DecoderLayer& own = step.layers[layer];
  const int64_t hd = step.head_dim, group = step.heads / step.key_heads;
  for_each_head(step, pool, step.source_length, [&](int64_t row, int64_t head) {
    const int64_t sentence = row / step.rows_per_source;
    const int64_t start = sentence * own.source_strides[0] + head / group * own.source_strides[1];
    auto offset = [&](int64_t p) { return p * own.source_strides[2]; };
    const float* bias = step.source_bias ? step.source_bias + sentence * step.source_length : nullptr;
    attend_head(query + (row * step.heads + head) * hd, own.source_key + start,
                own.source_value + start, offset, bias, 0, step.source_length, hd,
                scores + (row * step.heads + head) * step.source_length,
                context + (row * step.heads + head) * hd);
  });
}

INLINE float apply_activation(float x, int64_t kind) {
  switch (kind) {
    case RELU: return x < 0.0f ? 0.0f : x;
    case GELU: return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f));
    case GELU_TANH:
      return 0.5f * x * (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    default: return x / (1.0f + std::exp(-x));
  }
}

INLINE vec silu(vec x) { return x / (exp2(x * -LOG2E) + 1.0f); }

// up = activation(up), or activation(gate) * up where the feed-forward layer is gated.
void activate(const DecoderStep& step, float* up, const float* gate, int64_t count) {
  int64_t i = 0;
  if (step.activation == SILU)
    for (; i + WIDTH <= count; i += WIDTH) {
      const vec x = silu(load_unaligned((gate ? gate : up) + i));
      store_unaligned(up + i, gate ? x * load_unaligned(up + i) : x);
    }
  for (; i < count; i++)
    up[i] = gate ? apply_activation(gate[i], step.activation) * up[i]
                 : apply_activation(up[i], step.activation);
}

void add(float* x, const float* y, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] += y[i];
}

// Runs all layers: step.x becomes the vectors of the new tokens after the last layer, and
// step.logits the logits of the next token.
void run_layers(const DecoderStep& step, WorkerPool& pool) {
  const int64_t count = step.rows * step.dim;
  float *y = step.scratch, *wide = y + count, *gate = wide + step.rows * step.max_width;
  float *context = gate + step.rows * step.max_width;
  float* scores = context + step.rows * step.heads * step.head_dim;
  // The input of a sublayer: normalised in a pre-norm model, as it is in a post-norm one.
  auto before = [&](const Norm& norm) -> const float* {
    if (!step.norm_first) return step.x;
    normalise(norm, step.x, y, step);
    return y;
  };
  auto after = [&](const Norm& norm) {
    add(step.x, y, count);
    if (!step.norm_first) normalise(norm, step.x, step.x, step);
  };
  for (int64_t index = 0; index < step.layer_count; index++) {
    const DecoderLayer& layer = step.layers[index];
    multiply(layer.qkv, before(layer.self_norm), wide, step, pool);
    attend_self(step, pool, index, wide, scores, context);
    multiply(layer.self_out, context, y, step, pool);
    after(layer.self_norm);
    if (layer.cross_query.weight) {
      multiply(layer.cross_query, before(layer.cross_norm), wide, step, pool);
      attend_source(step, pool, index, wide, scores, context);
      multiply(layer.cross_out, context, y, step, pool);
      after(layer.cross_norm);
    }
    const float* x = before(layer.ffn_norm);
    multiply(layer.up, x, wide, step, pool);
    if (layer.gate.weight) multiply(layer.gate, x, gate, step, pool);
    activate(step, wide, layer.gate.weight ? gate : nullptr, step.rows * layer.up.out_features);
    multiply(layer.down, wide, y, step, pool);
    after(layer.ffn_norm);
  }
  if (step.final_norm.kind != NO_NORM) normalise(step.final_norm, step.x, step.x, step);
  if (step.output.weight) multiply(step.output, step.x, step.logits, step, pool);
}

void run_step(const DecoderStep& step) {
  with_workers(step.threads, [&](WorkerPool& pool) { run_layers(step, pool); });
}

// The attention of one layer alone, for batches whose products torch computes. `x` holds the
// queries and, for self-attention, the new keys and values behind them.
void run_attention(const DecoderStep& step, int64_t layer, float* x, float* context, bool self) {
  with_workers(step.threads, [&](WorkerPool& pool) {
    if (self) attend_self(step, pool, layer, x, step.scratch, context);
    else attend_source(step, pool, layer, x, step.scratch, context);
  });
}

}  // namespace decoder
}  // namespace regard
