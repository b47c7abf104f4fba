// The structures that Python fills: raw pointers, sizes and strides (in elements). kernels/layout.py
// has the same fields in the same order.
#pragma once
#include <cstdint>

namespace regard {

enum Kind : int32_t { FLOAT32 = 0, BFLOAT16 = 1, FLOAT16 = 2, BOOLEAN = 3, ABSENT = 4 };

// A tensor with the axes batch, head, row and a contiguous last axis.
struct Matrix {
  const void* data;
  int64_t strides[3];
};

// A bias that is added to the scores (floating kinds), or a mask that hides where false (BOOLEAN).
// Axes batch, head, query, key, with stride 0 along an axis where it does not vary; row 0 of the
// data is query `first_row`.
struct ScoreTerm {
  const void* data;
  int64_t strides[4];
  int64_t first_row;
  int32_t kind;
};

constexpr int MAX_TERMS = 3;

struct Call {
  Matrix query, key, value;
  int64_t batch, heads, key_heads, queries, keys, dim, value_dim;
  int64_t offset, left, right;  // query i sees positions offset + i - left .. offset + i + right
  ScoreTerm terms[MAX_TERMS];
  const float* sink;      // one logit per head, or null
  const uint8_t* padded;  // batch x key, or null
  float scale, softcap;   // softcap 0: none
  int32_t kind, threads;
};

// Where results are written; a null pointer leaves a result out.
struct ObservationPointers {
  void* context;
  int64_t context_strides[3];
  float* lse;
  float *entropy, *largest, *distance, *on_first, *on_self, *on_previous, *on_next, *on_future,
      *on_padding, *on_sink;
  int32_t* largest_key;
  float* top_weights;
  int32_t* top_keys;
  int64_t top;
  float *cell_sum, *cell_largest;  // batch x head x cell row x cell column, zero at the start
  int64_t cell_rows, cell_columns; // the sides of a cell
};

// One rectangle of one head, pooled to cells of zoom x zoom; the outputs are zero at the start.
struct RegionPointers {
  int64_t example, head, first_row, last_row, first_column, last_column, zoom;
  const float* lse;  // batch x head x query
  float *sum, *largest;
};

// Sums of each key's column of weights, and of each row's weights per label of keys.
struct ReceivedPointers {
  const float* lse;
  double* total;          // batch x head x key, zero at the start
  const int32_t* labels;  // batch x key, negative for none; or null
  int64_t label_count;
  float* by_label;  // batch x head x query x label
};

}  // namespace regard
