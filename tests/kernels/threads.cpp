// Runs the kernels on several threads at once, for the thread sanitizer: several leaders compete for the
// pool of workers, which fall asleep and are woken, grow in number and change it; passes over a call run
// in slices. Every result is compared with that of one thread.
#include <cstdio>
#include <functional>
#include <random>

#include "../../src/regard/kernels/cpp/native.cpp"

namespace {

typedef std::vector<float> Numbers;

Numbers random_numbers(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Numbers numbers(count);
  for (float& x : numbers) x = normal(engine);
  return numbers;
}

std::atomic<int> failures{0};

void expect_same(const char* name, const Numbers& one, const Numbers& other) {
  if (one == other) return;
  failures++;
  std::printf("%s differs from the result of one thread\n", name);
}

// Call run(threads) again and again from several threads, and compare with the result of run(1). Now and
// then a caller pauses for longer than the workers wait before they sleep.
void compete(const char* name, int callers, int rounds, const std::function<Numbers(int)>& run) {
  const Numbers expected = run(1);
  std::vector<std::thread> others;
  for (int caller = 0; caller < callers; caller++)
    others.emplace_back([&, caller] {
      for (int round = 0; round < rounds; round++) {
        expect_same(name, run(1 + (caller + round) % 4), expected);
        if (round % 8 == caller) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
    });
  for (std::thread& other : others) other.join();
  std::printf("%s\n", name);
}

const int64_t ROWS = 3, DIM = 64, OUTS = 4099;

Numbers product(int threads) {
  static const Numbers x = random_numbers(ROWS * DIM, 1), w = random_numbers(OUTS * DIM, 2);
  Numbers y(ROWS * OUTS);
  regard_matvec(x.data(), w.data(), nullptr, y.data(), ROWS, DIM, OUTS, threads);
  return y;
}

Numbers int8_product(int threads) {
  static const Numbers x = random_numbers(ROWS * DIM, 3), scales(OUTS, 0.5f);
  static const std::vector<int8_t> w(OUTS * DIM, 7);
  Numbers y(ROWS * OUTS);
  regard_matvec_int8(x.data(), w.data(), scales.data(), nullptr, y.data(), ROWS, DIM, OUTS, threads);
  return y;
}

Numbers largest(int threads) {
  static const Numbers x = random_numbers(5 * OUTS, 4);
  Numbers values(5 * 8), totals(5);
  std::vector<int64_t> columns(5 * 8);
  regard_topk(x.data(), values.data(), columns.data(), 5, OUTS, 8, threads);
  regard_logsumexp(x.data(), totals.data(), 5, OUTS, threads);
  values.insert(values.end(), totals.begin(), totals.end());
  return values;
}

// The self-attention of one layer at position 700, long enough that heads go to several threads.
Numbers layer_attention(int threads) {
  const int64_t heads = 4, width = DIM / heads, position = 700;
  regard::decoder::DecoderLayer layer = {};
  regard::decoder::DecoderStep step = {};
  Numbers cache = random_numbers((position + 1) * ROWS * 2 * DIM, 5);
  Numbers qkv = random_numbers(ROWS * 3 * DIM, 6), context(ROWS * DIM);
  Numbers scratch(ROWS * heads * (position + 1));
  std::vector<int64_t> rows(ROWS * (position + 1));
  for (size_t i = 0; i < rows.size(); i++) rows[i] = static_cast<int64_t>(i) % ROWS;
  step.layers = &layer;
  step.cache = cache.data();
  step.cache_rows = rows.data();
  step.cache_rows_stride = position + 1;
  const int64_t strides[4] = {0, ROWS * 2 * DIM, 2 * DIM, DIM};
  std::copy(strides, strides + 4, step.cache_strides);
  step.rows = ROWS, step.heads = step.key_heads = heads, step.head_dim = width;
  step.position = position, step.threads = threads, step.scratch = scratch.data();
  regard_layer_attention(&step, 0, qkv.data(), context.data(), 1);
  return context;
}

regard::Call attention_call(const Numbers& sides, int64_t length, int threads) {
  const int64_t heads = 2;
  regard::Call call = {};
  for (regard::Matrix* side : {&call.query, &call.key, &call.value})
    *side = {sides.data(), {heads * length * DIM, length * DIM, DIM}};
  call.batch = 1, call.heads = call.key_heads = heads;
  call.queries = call.keys = length, call.dim = call.value_dim = DIM;
  call.left = length - 1, call.right = 0;  // causal
  for (regard::ScoreTerm& term : call.terms) term.kind = regard::ABSENT;
  call.scale = 0.125f, call.threads = threads;
  return call;
}

// One pass after another in slices that end at once, as Python runs them.
template <class Run>
void run_slices(int64_t length, Run&& run) {
  regard::Progress progress = {0, length, 0, 1e-4};
  while (run(&progress) != regard::DONE) {
  }
}

// A pass with its context, statistics of which two are kept, and atlas; then the sums of columns.
Numbers attention(int threads) {
  const int64_t length = 211, rows = 2 * length, cells = 2 * 14 * 14;
  static const Numbers sides = random_numbers(2 * length * DIM, 7);
  const regard::Call call = attention_call(sides, length, threads);
  Numbers context(rows * DIM), lse(rows), statistics(10 * rows), sums(cells), maxima(cells);
  std::vector<int32_t> keys(rows);
  regard::ObservationPointers results = {};
  results.context = context.data(), results.lse = lse.data();
  const int64_t strides[3] = {rows * DIM, length * DIM, DIM};
  std::copy(strides, strides + 3, results.context_strides);
  float** places[] = {&results.entropy,  &results.largest,     &results.distance, &results.on_first,
                      &results.on_self,  &results.on_previous, &results.on_next,  &results.on_future,
                      &results.on_padding, &results.on_sink};
  for (int i = 0; i < 10; i++) *places[i] = statistics.data() + i * rows;
  results.largest_key = keys.data();
  results.cell_sum = sums.data(), results.cell_largest = maxima.data();
  results.cell_rows = results.cell_columns = 16;
  run_slices(length, [&](auto* progress) { return regard_observe(&call, &results, progress); });
  for (const Numbers* more : {&lse, &statistics, &sums, &maxima})
    context.insert(context.end(), more->begin(), more->end());
  return context;
}

// Columns are added to one total by whichever thread is done: the sums are compared to 1e-5.
Numbers received(int threads) {
  const int64_t length = 811;
  static const Numbers sides = random_numbers(2 * length * DIM, 8);
  const regard::Call call = attention_call(sides, length, threads);
  const Numbers lse(2 * length, 4.0f);
  std::vector<double> total(2 * length);
  regard::ReceivedPointers results = {lse.data(), total.data(), nullptr, 0, nullptr};
  run_slices(length, [&](auto* progress) { return regard_sum_received(&call, &results, progress); });
  Numbers rounded(total.size());
  for (size_t i = 0; i < total.size(); i++)
    rounded[i] = static_cast<float>(std::round(total[i] * 1e4) / 1e4);
  return rounded;
}

Numbers pairs(int threads) {
  const int64_t firsts = 37, seconds = 41, hidden = 67;
  static const Numbers numbers = random_numbers(2 * 64 * hidden, 9);
  Numbers scores(2 * firsts * seconds);
  regard::PairSums sums = {};
  sums.first = sums.second = sums.v = numbers.data();
  sums.scores = scores.data();
  sums.rows = 1, sums.firsts = firsts, sums.seconds = seconds, sums.hidden = hidden;
  sums.threads = threads;
  run_slices(0, [&](auto* progress) { return regard_pair_sums(&sums, progress); });
  return scores;
}

}  // namespace

int main() {
  compete("matvec", 3, 150, product);
  compete("int8", 3, 150, int8_product);
  compete("topk", 3, 150, largest);
  compete("attention of a layer", 3, 60, layer_attention);
  compete("observe", 2, 6, attention);
  compete("received", 2, 4, received);
  compete("pair sums", 2, 20, pairs);
  return failures ? 1 : 0;
}
