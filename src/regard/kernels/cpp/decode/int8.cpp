// x W^T + b with W as 8-bit integers: a quarter of the bytes of w to read.
#pragma once
#include "matvec.cpp"

namespace regard {

// y = scale_x scale_w (q w^T) + bias, where q is x rounded to 8 bits, each row scaled by its largest
// magnitude. w is contiguous, has `outs` rows and a scale for each; bias may be null.
struct Int8Matvec {
  const float* x;
  const int8_t* w;
  const float *scales, *bias;
  float* y;
  int64_t rows, dim, outs, threads;
};

constexpr int64_t VNNI_BYTES = 64;  // bytes of a row that one instruction multiplies
constexpr int ZERO_POINT = 128;     // the value of q that stands for zero: q is unsigned

// The rows of x in 8 bits, padded to whole vectors, and the scale of each.
struct QuantisedRows {
  const uint8_t* q;
  const float* scales;
  int64_t stride;
};

// The largest absolute value; NaN if a number is NaN or infinite, because 0 x infinity is NaN.
INLINE float largest_magnitude(const float* x, int64_t dim) {
  vec tops = {}, bad = {};
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH) {
    const vec numbers = load_unaligned(x + d);
    tops = larger(tops, larger(numbers, -numbers));
    bad += numbers * 0.0f;
  }
  float top = 0.0f, wrong = sum_lanes(bad);
  for (int i = 0; i < WIDTH; i++) top = std::max(top, tops[i]);
  for (; d < dim; d++) {
    top = std::max(top, std::fabs(x[d]));
    wrong += x[d] * 0.0f;
  }
  return top + wrong;
}

// Write the row in 8 bits and return its scale; a row with NaN or infinity has a scale of NaN.
INLINE float quantise_row(const float* x, uint8_t* q, int64_t dim) {
  const float top = largest_magnitude(x, dim);
  if (std::isnan(top)) {
    std::memset(q, ZERO_POINT, static_cast<size_t>(dim));
    return top;
  }
  // A row of denormal numbers would have an infinite inverse; it counts as zeros.
  const float inverse = top >= 1e-36f ? 127.0f / top : 0.0f;
  for (int64_t d = 0; d < dim; d++)
    q[d] = static_cast<uint8_t>(static_cast<int>(x[d] * inverse + (ZERO_POINT + 0.5f)));
  return top / 127.0f;
}

QuantisedRows quantise(const Int8Matvec& job) {
  static thread_local std::vector<uint8_t> q;
  static thread_local std::vector<float> scales;
  const int64_t stride = (job.dim + VNNI_BYTES - 1) / VNNI_BYTES * VNNI_BYTES;
  q.resize(static_cast<size_t>(stride * job.rows));
  scales.resize(static_cast<size_t>(job.rows));
  for (int64_t row = 0; row < job.rows; row++)
    scales[static_cast<size_t>(row)] =
        quantise_row(job.x + row * job.dim, q.data() + row * stride, job.dim);
  return {q.data(), scales.data(), stride};
}

INLINE void write_output(const Int8Matvec& job, const QuantisedRows& rows, int64_t row, int64_t out,
                         int32_t sum) {
  const float product = static_cast<float>(sum) * rows.scales[row] * job.scales[out];
  job.y[row * job.outs + out] = product + (job.bias ? job.bias[out] : 0.0f);
}

// Not inlined: GCC 12 with VNNI enabled would vectorise this loop as if q were signed.
__attribute__((noinline)) int32_t dot_scalar(const uint8_t* q, const int8_t* w, int64_t from,
                                             int64_t dim) {
  int32_t sum = 0;
  for (int64_t d = from; d < dim; d++) sum += (static_cast<int32_t>(q[d]) - ZERO_POINT) * w[d];
  return sum;
}

typedef void (*Int8Tile)(const Int8Matvec&, const QuantisedRows&, int64_t, int64_t);

template <int XS, int WS>
void tile_portable(const Int8Matvec& job, const QuantisedRows& rows, int64_t first, int64_t out) {
  for (int j = 0; j < WS; j++)
    for (int i = 0; i < XS; i++)
      write_output(job, rows, first + i, out + j,
                   dot_scalar(rows.q + (first + i) * rows.stride, job.w + (out + j) * job.dim, 0,
                              job.dim));
}

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define WITH_VNNI 1
// dpbusd adds four products of an unsigned and a signed byte at once. q is shifted by ZERO_POINT to be
// unsigned, so each row of w is also multiplied by ZERO_POINT and that sum is subtracted at the end.
#define VNNI __attribute__((target("avx512vnni")))

// The sums of the lanes of each of four vectors, side by side.
INLINE VNNI __m128i four_sums(const __m512i* x) {
  const __m512i a =
      _mm512_add_epi32(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
  const __m512i b =
      _mm512_add_epi32(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
  const __m512i c = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  const __m256i d = _mm256_add_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
}

template <int XS, int WS>
VNNI void tile_vnni(const Int8Matvec& job, const QuantisedRows& rows, int64_t first, int64_t out) {
  const int64_t dim = job.dim;
  const uint8_t* q = rows.q + first * rows.stride;
  const int8_t* w = job.w + out * dim;
  const __m512i zero_point = _mm512_set1_epi8(static_cast<char>(ZERO_POINT));
  __m512i sums[XS + 1][WS];  // the last row is the product with ZERO_POINT
  for (int i = 0; i <= XS; i++)
    for (int j = 0; j < WS; j++) sums[i][j] = _mm512_setzero_si512();
  int64_t d = 0;
  for (; d + VNNI_BYTES <= dim; d += VNNI_BYTES) {
    __m512i right[WS];
    for (int j = 0; j < WS; j++) {
      right[j] = _mm512_loadu_si512(w + j * dim + d);
      __builtin_prefetch(w + (j + WS) * dim + d);
      sums[XS][j] = _mm512_dpbusd_epi32(sums[XS][j], zero_point, right[j]);
    }
    for (int i = 0; i < XS; i++) {
      const __m512i left = _mm512_loadu_si512(q + i * rows.stride + d);
      for (int j = 0; j < WS; j++) sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], left, right[j]);
    }
  }
  for (int i = 0; i < XS; i++) {
    int32_t totals[4];
    __m512i sums_of_row[4] = {};
    for (int j = 0; j < WS; j++) sums_of_row[j] = _mm512_sub_epi32(sums[i][j], sums[XS][j]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(totals), four_sums(sums_of_row));
    for (int j = 0; j < WS; j++)
      write_output(job, rows, first + i, out + j,
                   totals[j] + dot_scalar(q + i * rows.stride, w + j * dim, d, dim));
  }
}
#endif

constexpr int INT8_W_ROWS = 4;  // rows of w beside MAX_X_ROWS of x

// The functions for INT8_W_ROWS rows of w and for a single one.
struct Int8Tiles {
  Int8Tile whole, single;
};

template <int XS>
Int8Tiles tiles_of() {
#if defined(WITH_VNNI)
  static const bool vnni = __builtin_cpu_supports("avx512vnni");
  if (vnni) return {tile_vnni<XS, INT8_W_ROWS>, tile_vnni<XS, 1>};
#endif
  return {tile_portable<XS, INT8_W_ROWS>, tile_portable<XS, 1>};
}

void multiply_int8_block(const Int8Matvec& job, const QuantisedRows& rows, int64_t from,
                         int64_t to) {
  static const Int8Tiles tiles[MAX_X_ROWS] = {tiles_of<1>(), tiles_of<2>(), tiles_of<3>(),
                                              tiles_of<4>(), tiles_of<5>()};
  const int64_t groups = (job.rows + MAX_X_ROWS - 1) / MAX_X_ROWS;
  for (int64_t group = 0; group < groups; group++) {
    const int64_t first = job.rows * group / groups, end = job.rows * (group + 1) / groups;
    const Int8Tiles& tile = tiles[end - first - 1];
    int64_t out = from;
    for (; out + INT8_W_ROWS <= to; out += INT8_W_ROWS) tile.whole(job, rows, first, out);
    for (; out < to; out++) tile.single(job, rows, first, out);
  }
}

void matvec_int8(const Int8Matvec& job, WorkerPool& pool) {
  const QuantisedRows rows = quantise(job);
  const int64_t blocks = (job.outs + W_BLOCK - 1) / W_BLOCK;
  const int64_t step = std::max<int64_t>(
      1, std::min(PART_BYTES / std::max<int64_t>(1, W_BLOCK * job.dim),
                  blocks / std::max(1, pool.threads())));
  pool.run((blocks + step - 1) / step, [&](int64_t part) {
    const int64_t end = std::min(job.outs, (part + 1) * step * W_BLOCK);
    for (int64_t from = part * step * W_BLOCK; from < end; from += W_BLOCK)
      multiply_int8_block(job, rows, from, std::min(end, from + W_BLOCK));
  });
}

void matvec_int8(const Int8Matvec& job) {
  with_workers(job.threads, [&](WorkerPool& pool) { matvec_int8(job, pool); });
}

}  // namespace regard
