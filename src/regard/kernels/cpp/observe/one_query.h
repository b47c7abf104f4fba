// One step of decoding, as Python fills it (kernels/observe/one_query.py has the same fields in the
// same order): the query of one example, its keys and values, and where results are written.
#pragma once
#include <cstdint>

namespace regard {

// Strides are in elements; the last axis of every tensor is contiguous.
struct OneQuery {
  const void *query, *key, *value;
  int64_t query_stride;      // from head to head
  int64_t key_strides[2];    // from head to head, from key to key
  int64_t value_strides[2];
  int64_t heads, key_heads, keys, dim, value_dim;
  void* context;         // heads x value_dim, or null
  float* numbers;        // 12 x heads: lse, entropy, largest, ..., on_sink, and largest_key as int32
  const void* last_key;  // key_heads x dim: the newest key of the step before
  void *query_copy, *key_copy;  // heads x dim, key_heads x dim
  double scale;
  int64_t kind, threads;
};

// OTHER_KEYS: the keys do not go on with the step before. UNDEFINED: the row has no softmax.
enum StepOutcome : int { OBSERVED = 0, OTHER_KEYS = 1, UNDEFINED = 2 };

StepOutcome observe_one_query(const OneQuery& call);

}  // namespace regard
