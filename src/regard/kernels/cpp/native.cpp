// The names that Python finds, and all passes as one unit, so that a build is one command.
#include "decode/decoder_step.cpp"
#include "decode/int8.cpp"
#include "decode/matvec.cpp"
#include "decode/topk.cpp"
#include "observe/observe.cpp"
#include "pair_sums.cpp"
#include "observe/recompute.cpp"

extern "C" {

int regard_observe(const regard::Call* call, const regard::Kept* kept, regard::Progress* progress) {
  return regard::observe(*call, *kept, *progress);
}

int regard_look(const regard::Call* call, const regard::View* view, regard::Progress* progress) {
  return regard::look(*call, *view, *progress);
}

int regard_count(const regard::Call* call, const regard::Received* received,
                 regard::Progress* progress) {
  return regard::count(*call, *received, *progress);
}

int regard_pair_up(const regard::Pairs* pairs, regard::Progress* progress) {
  return regard::pair_up(*pairs, *progress);
}

void regard_matvec(const float* x, const float* w, const float* bias, float* y, int64_t rows,
                     int64_t dim, int64_t outs, int64_t threads) {
  regard::multiply({x, w, bias, y, rows, dim, outs, threads});
}

void regard_matvec_int8(const float* x, const int8_t* w, const float* scales, const float* bias,
                           float* y, int64_t rows, int64_t dim, int64_t outs, int64_t threads) {
  regard::multiply_eight({x, w, scales, bias, y, rows, dim, outs, threads});
}

void regard_decode(const regard::decoding::Step* step) { regard::decoding::decode(*step); }

int64_t regard_decode_layout() {
  return static_cast<int64_t>(sizeof(regard::decoding::Step) * 10000 + sizeof(regard::decoding::Block));
}

void regard_read(const regard::decoding::Step* step, int64_t layer, float* x, float* context,
                 int own) {
  regard::decoding::read(*step, layer, x, context, own != 0);
}

void regard_logsumexp(const float* x, float* totals, int64_t rows, int64_t columns, int64_t threads) {
  regard::log_totals(x, totals, rows, columns, threads);
}

void regard_topk(const float* x, float* values, int64_t* places, int64_t rows, int64_t columns,
                    int64_t count, int64_t threads) {
  regard::largest(x, values, places, rows, columns, count, threads);
}

// Use the threads of the OpenMP runtime whose GOMP_parallel this is.
void regard_share_threads(void* gomp_parallel) {
  regard::shared_runtime().store(reinterpret_cast<regard::GompParallel>(gomp_parallel));
}

// For the loader: that both sides agree on the layout of what they exchange.
int64_t regard_layout() {
  const size_t sizes[] = {sizeof(regard::Call), sizeof(regard::Kept), sizeof(regard::View),
                          sizeof(regard::Received), sizeof(regard::Progress), sizeof(regard::Pairs)};
  int64_t layout = 1;
  for (size_t size : sizes) layout = layout * 1000 + static_cast<int64_t>(size);
  return layout;
}
}
