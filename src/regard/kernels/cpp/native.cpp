// The functions that Python calls. All sources are included here, so that one command builds them.
#include "decode/decoder_step.cpp"
#include "decode/int8.cpp"
#include "decode/matvec.cpp"
#include "decode/topk.cpp"
#include "observe/observe.cpp"
#include "observe/one_query.cpp"
#include "observe/recompute.cpp"
#include "pair_sums.cpp"

extern "C" {

int regard_observe(const regard::Call* call, const regard::ObservationPointers* results,
                   regard::Progress* progress) {
  return regard::observe(*call, *results, *progress);
}

int regard_observe_one_query(const regard::OneQuery* call) {
  return regard::observe_one_query(*call);
}

// For the loader: the size of the structure that Python packs.
int64_t regard_one_query_layout() { return static_cast<int64_t>(sizeof(regard::OneQuery)); }

int regard_pool_region(const regard::Call* call, const regard::RegionPointers* region,
                       regard::Progress* progress) {
  return regard::pool_region(*call, *region, *progress);
}

int regard_sum_received(const regard::Call* call, const regard::ReceivedPointers* received,
                        regard::Progress* progress) {
  return regard::sum_received(*call, *received, *progress);
}

int regard_pair_sums(const regard::PairSums* pairs, regard::Progress* progress) {
  return regard::pair_sums(*pairs, *progress);
}

void regard_matvec(const float* x, const float* w, const float* bias, float* y, int64_t rows,
                   int64_t dim, int64_t outs, int64_t threads) {
  regard::matvec({x, w, bias, y, rows, dim, outs, threads});
}

void regard_matvec_int8(const float* x, const int8_t* w, const float* scales, const float* bias,
                        float* y, int64_t rows, int64_t dim, int64_t outs, int64_t threads) {
  regard::matvec_int8({x, w, scales, bias, y, rows, dim, outs, threads});
}

void regard_logsumexp(const float* x, float* totals, int64_t rows, int64_t columns,
                      int64_t threads) {
  regard::logsumexp(x, totals, rows, columns, threads);
}

void regard_topk(const float* x, float* values, int64_t* columns, int64_t rows, int64_t width,
                 int64_t count, int64_t threads) {
  regard::topk(x, values, columns, rows, width, count, threads);
}

void regard_decoder_step(const regard::decoder::DecoderStep* step) {
  regard::decoder::run_step(*step);
}

void regard_layer_attention(const regard::decoder::DecoderStep* step, int64_t layer, float* x,
                            float* context, int self) {
  regard::decoder::run_attention(*step, layer, x, context, self != 0);
}

// For the loader: a number that Python computes from its own structures, to see that both agree.
int64_t regard_decoder_layout() {
  return static_cast<int64_t>(sizeof(regard::decoder::DecoderStep) * 10000 +
                              sizeof(regard::decoder::DecoderLayer));
}

// Use the threads of the OpenMP runtime whose GOMP_parallel this is.
void regard_share_threads(void* gomp_parallel) {
  regard::shared_runtime().store(reinterpret_cast<regard::GompParallel>(gomp_parallel));
}

// For the loader: the sizes of the structures that Python and C++ exchange, three digits for each.
int64_t regard_layout() {
  const size_t sizes[] = {sizeof(regard::Call),           sizeof(regard::ObservationPointers),
                          sizeof(regard::RegionPointers), sizeof(regard::ReceivedPointers),
                          sizeof(regard::Progress),       sizeof(regard::PairSums)};
  int64_t layout = 1;
  for (size_t size : sizes) layout = layout * 1000 + static_cast<int64_t>(size);
  return layout;
}
}
