// Rows times a matrix of eight-bit numbers: a quarter of the bytes of w to read.
#pragma once
#include "matvec.cpp"

namespace regard {

// y = scale_x scale_w (q w^T) + bias, q being x in eight bits, each row by its own largest number.
// w has `outs` rows without gaps and a scale for each; bias may be missing.
struct Eight {
  const float* x;
  const int8_t* w;
  const float *scales, *bias;
  float* y;
  int64_t rows, dim, outs, threads;
};

constexpr int64_t ALIKE = 64;  // bytes of a row that are multiplied at once
constexpr int MIDDLE = 128;    // stands for zero in q, which has no signs

// The rows of x in eight bits, filled up to whole vectors, and what each is to be multiplied by.
struct Bytes {
  const uint8_t* q;
  const float* scales;
  int64_t stride;
};

// The largest of the numbers without their signs; NaN if one is none, or infinite.
INLINE float largest_size(const float* x, int64_t dim) {
  vec tops = {}, bad = {};
  int64_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH) {
    const vec each = load_any(x + d);
    tops = larger(tops, larger(each, -each));
    bad += each * 0.0f;
  }
  float top = 0.0f, wrong = lanes_of(bad);
  for (int i = 0; i < WIDTH; i++) top = std::max(top, tops[i]);
  for (; d < dim; d++) {
    top = std::max(top, std::fabs(x[d]));
    wrong += x[d] * 0.0f;
  }
  return top + wrong;
}

INLINE float quantise_row(const float* x, uint8_t* q, int64_t dim) {
  const float top = largest_size(x, dim);
  if (std::isnan(top)) {
    std::memset(q, MIDDLE, static_cast<size_t>(dim));
    return top;
  }
  const float inverse = top > 0.0f ? 127.0f / top : 0.0f;
  for (int64_t d = 0; d < dim; d++)
    q[d] = static_cast<uint8_t>(static_cast<int>(x[d] * inverse + (MIDDLE + 0.5f)));
  return top / 127.0f;
}

Bytes quantise(const Eight& eight) {
  static thread_local std::vector<uint8_t> q;
  static thread_local std::vector<float> scales;
  const int64_t stride = (eight.dim + ALIKE - 1) / ALIKE * ALIKE;
  q.resize(static_cast<size_t>(stride * eight.rows));
  scales.resize(static_cast<size_t>(eight.rows));
  for (int64_t row = 0; row < eight.rows; row++)
    scales[static_cast<size_t>(row)] =
        quantise_row(eight.x + row * eight.dim, q.data() + row * stride, eight.dim);
  return {q.data(), scales.data(), stride};
}

INLINE void write_one(const Eight& eight, const Bytes& bytes, int64_t row, int64_t out, int32_t sum) {
  const float product = static_cast<float>(sum) * bytes.scales[row] * eight.scales[out];
  eight.y[row * eight.outs + out] = product + (eight.bias ? eight.bias[out] : 0.0f);
}

// Apart from its callers: where GCC 12 may use VNNI for this loop, it takes q for signed.
__attribute__((noinline)) int32_t rest_of(const uint8_t* q, const int8_t* w, int64_t from,
                                          int64_t dim) {
  int32_t sum = 0;
  for (int64_t d = from; d < dim; d++) sum += (static_cast<int32_t>(q[d]) - MIDDLE) * w[d];
  return sum;
}

typedef void (*EightTile)(const Eight&, const Bytes&, int64_t, int64_t);

template <int XS, int WS>
void tile_anywhere(const Eight& eight, const Bytes& bytes, int64_t first, int64_t out) {
  for (int j = 0; j < WS; j++)
    for (int i = 0; i < XS; i++)
      write_one(eight, bytes, first + i, out + j,
                rest_of(bytes.q + (first + i) * bytes.stride, eight.w + (out + j) * eight.dim, 0,
                        eight.dim));
}

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define WITH_VNNI 1
// Four products of bytes are added up at once. Each row of w is also multiplied by MIDDLE: what the
// missing signs of q brought in is taken out again.
#define VNNI __attribute__((target("avx512vnni")))

// The four sums of four vectors each, side by side.
INLINE VNNI __m128i four_sums(const __m512i* x) {
  const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
  const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
  const __m512i c = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  const __m256i d = _mm256_add_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
}

template <int XS, int WS>
VNNI void tile_vnni(const Eight& eight, const Bytes& bytes, int64_t first, int64_t out) {
  const int64_t dim = eight.dim;
  const uint8_t* q = bytes.q + first * bytes.stride;
  const int8_t* w = eight.w + out * dim;
  const __m512i middle = _mm512_set1_epi8(static_cast<char>(MIDDLE));
  __m512i sums[XS + 1][WS];  // the last for MIDDLE
  for (int i = 0; i <= XS; i++)
    for (int j = 0; j < WS; j++) sums[i][j] = _mm512_setzero_si512();
  int64_t d = 0;
  for (; d + ALIKE <= dim; d += ALIKE) {
    __m512i right[WS];
    for (int j = 0; j < WS; j++) {
      right[j] = _mm512_loadu_si512(w + j * dim + d);
      __builtin_prefetch(w + (j + WS) * dim + d);
      sums[XS][j] = _mm512_dpbusd_epi32(sums[XS][j], middle, right[j]);
    }
    for (int i = 0; i < XS; i++) {
      const __m512i left = _mm512_loadu_si512(q + i * bytes.stride + d);
      for (int j = 0; j < WS; j++) sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], left, right[j]);
    }
  }
  for (int i = 0; i < XS; i++) {
    int32_t totals[4];
    __m512i signed_sums[4] = {};
    for (int j = 0; j < WS; j++) signed_sums[j] = _mm512_sub_epi32(sums[i][j], sums[XS][j]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(totals), four_sums(signed_sums));
    for (int j = 0; j < WS; j++)
      write_one(eight, bytes, first + i, out + j,
                totals[j] + rest_of(q + i * bytes.stride, w + j * dim, d, dim));
  }
}
#endif

constexpr int BYTE_ROWS = 4;  // rows of w beside SOME of x

struct EightTiles {
  EightTile whole, single;
};

template <int XS>
EightTiles tiles_of() {
#if defined(WITH_VNNI)
  static const bool vnni = __builtin_cpu_supports("avx512vnni");
  if (vnni) return {tile_vnni<XS, BYTE_ROWS>, tile_vnni<XS, 1>};
#endif
  return {tile_anywhere<XS, BYTE_ROWS>, tile_anywhere<XS, 1>};
}

void multiply_eight_block(const Eight& eight, const Bytes& bytes, int64_t from, int64_t to) {
  static const EightTiles tiles[SOME] = {tiles_of<1>(), tiles_of<2>(), tiles_of<3>(), tiles_of<4>(),
                                         tiles_of<5>()};
  const int64_t groups = (eight.rows + SOME - 1) / SOME;
  for (int64_t group = 0; group < groups; group++) {
    const int64_t first = eight.rows * group / groups, end = eight.rows * (group + 1) / groups;
    const EightTiles& tile = tiles[end - first - 1];
    int64_t out = from;
    for (; out + BYTE_ROWS <= to; out += BYTE_ROWS) tile.whole(eight, bytes, first, out);
    for (; out < to; out++) tile.single(eight, bytes, first, out);
  }
}

void multiply_eight(const Eight& eight, Team& team) {
  const Bytes bytes = quantise(eight);
  const int64_t blocks = (eight.outs + BLOCK - 1) / BLOCK;
  const int64_t step = std::max<int64_t>(
      1, std::min(PART / (BLOCK * eight.dim), blocks / std::max(1, team.threads())));
  team.run((blocks + step - 1) / step, [&](int64_t part) {
    const int64_t end = std::min(eight.outs, (part + 1) * step * BLOCK);
    for (int64_t from = part * step * BLOCK; from < end; from += BLOCK)
      multiply_eight_block(eight, bytes, from, std::min(end, from + BLOCK));
  });
}

void multiply_eight(const Eight& eight) {
  with_team(eight.threads, [&](Team& team) { multiply_eight(eight, team); });
}

}  // namespace regard
