// Vectors of the width that this build is for, in the compiler's vector extensions.
// The same source is built three times: with -mavx512f -mavx512dq, with -mavx2 -mfma, and without
// flags (SSE or NEON). `oct` and `hex` are 8 and 16 floats whatever the width.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace regard {

// A product keeps KEYS x VECTORS accumulators: as many as the registers hold without spilling.
#if defined(__AVX512F__) && defined(__AVX512DQ__)
constexpr int WIDTH = 16, KEYS = 8;
#elif defined(__AVX2__)
constexpr int WIDTH = 8, KEYS = 4;
#elif defined(__aarch64__)
constexpr int WIDTH = 4, KEYS = 8;
#else
constexpr int WIDTH = 4, KEYS = 4;
#endif
constexpr int VECTORS = 3;

typedef float vec __attribute__((vector_size(WIDTH * 4), may_alias));
typedef int32_t ivec __attribute__((vector_size(WIDTH * 4), may_alias));
typedef float loose_vec __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));
typedef float oct __attribute__((vector_size(32), may_alias));
typedef float loose_oct __attribute__((vector_size(32), aligned(4), may_alias));
typedef float hex __attribute__((vector_size(64), may_alias));

constexpr float NEVER = -INFINITY;
constexpr float LOG2E = 1.44269504088896341f, LN2 = 0.693147180559945309f;

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float* p) { return *reinterpret_cast<const vec*>(p); }
INLINE void store(float* p, vec x) { *reinterpret_cast<vec*>(p) = x; }
INLINE vec load_unaligned(const float* p) { return (vec)(*reinterpret_cast<const loose_vec*>(p)); }
INLINE vec splat(float x) { return x - vec{}; }

#if defined(__AVX512F__) && defined(__AVX512DQ__)
INLINE vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE bool any_above(vec a, vec b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ) != 0;
}
#elif defined(__AVX2__)
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE bool any_above(vec a, vec b) {
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ)) != 0;
}
#else
INLINE vec larger(vec a, vec b) { return a > b ? a : b; }
INLINE vec smaller(vec a, vec b) { return a < b ? a : b; }
INLINE bool any_above(vec a, vec b) {
  ivec above = a > b;
  int32_t all = 0;
  for (int i = 0; i < WIDTH; i++) all |= above[i];
  return all != 0;
}
#endif

// 2^x within 2e-7 of itself; exactly 1 at 0, exactly 0 below -126 and at -infinity, and NaN at NaN.
#if defined(__AVX512F__) && defined(__AVX512DQ__)
INLINE vec exp2(vec x) {
  constexpr int above_floor = 0x09;  // x - floor(x), which is 0 at -infinity
  vec r = (vec)_mm512_reduce_ps((__m512)x, above_floor);
  vec p = r * 0.00186713057f + 0.00901702925f;
  p = p * r + 0.0557999139f;
  p = p * r + 0.24016445f;
  p = p * r + 0.693151312f;
  p = p * r + 1.0f;
  return (vec)_mm512_scalef_ps((__m512)p, (__m512)x);
}
#else
INLINE vec exp2(vec x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits. Inputs below -126 are replaced by
  // -127, whose exponent field is 0: the result is exactly 0. `smaller` returns its second argument if
  // one of them is NaN.
  x = x < -126.0f ? splat(-127.0f) : smaller(splat(127.0f), x);
  vec shifted = x + 12582912.0f;
  vec r = x - (shifted - 12582912.0f);
  vec p = r * 0.00132647272f + 0.00967151281f;
  p = p * r + 0.0555073374f;
  p = p * r + 0.240222421f;
  p = p * r + 0.693146978f;
  p = p * r + 1.0f;
  // Only the low bits of the shifted number survive the move to the exponent. A product, not a sum of
  // bits: it stays NaN whatever the bits of a NaN are.
  typedef uint32_t uvec __attribute__((vector_size(WIDTH * 4), may_alias));
  return p * (vec)(((uvec)shifted << 23) + 0x3f800000u);
}
#endif

// The sum of the lanes, by quarters: adding one lane after another would take as long as a product.
INLINE float sum_lanes(vec x) {
  typedef float quad __attribute__((vector_size(16), may_alias));
  const quad* quads = reinterpret_cast<const quad*>(&x);
  quad sum = quads[0];
  for (int i = 1; i < WIDTH / 4; i++) sum += quads[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

INLINE float exp2_of(float x) { return x < -126.0f ? 0.0f : exp2f(x); }

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define SHUFFLE16(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t octi __attribute__((vector_size(32)));
typedef int32_t hexi __attribute__((vector_size(64)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, octi{__VA_ARGS__})
#define SHUFFLE16(a, b, ...) __builtin_shuffle(a, b, hexi{__VA_ARGS__})
#endif

INLINE oct load8(const float* p) { return *reinterpret_cast<const loose_oct*>(p); }
INLINE hex load16(const float* p) { return *reinterpret_cast<const hex*>(p); }
INLINE void store8(float* p, oct x) { *reinterpret_cast<loose_oct*>(p) = x; }

// Transpose a block of 8 x 8 numbers.
INLINE void transpose8(oct r[8]) {
  oct t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = SHUFFLE(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[i + 1] = SHUFFLE(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  oct u[8];
  for (int i = 0; i < 8; i += 4) {
    u[i] = SHUFFLE(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    u[i + 1] = SHUFFLE(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    u[i + 2] = SHUFFLE(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    u[i + 3] = SHUFFLE(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; i++) {
    r[i] = SHUFFLE(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] = SHUFFLE(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

struct Add {
  INLINE hex of(hex a, hex b) { return a + b; }
};
struct Larger {
  INLINE hex of(hex a, hex b) { return a > b ? a : b; }
};

// Reduce eight vectors of sixteen to one: lane i of the result's lower half is the reduction of the
// lower half of vector i, and lane 8 + i that of its upper half.
template <class Reduce>
INLINE hex reduce_halves(hex r[8]) {
  hex quad[2];
  for (int i = 0; i < 2; i++) {
    hex pair[2];
    for (int j = 0; j < 2; j++) {
      const hex a = r[4 * i + 2 * j], b = r[4 * i + 2 * j + 1];
      pair[j] = Reduce::of(
          SHUFFLE16(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30),
          SHUFFLE16(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31));
    }
    quad[i] = Reduce::of(
        SHUFFLE16(pair[0], pair[1], 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30),
        SHUFFLE16(pair[0], pair[1], 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31));
  }
  return Reduce::of(
      SHUFFLE16(quad[0], quad[1], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
      SHUFFLE16(quad[0], quad[1], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31));
}

}  // namespace regard
