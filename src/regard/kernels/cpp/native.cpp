// The names that Python finds, and all passes as one unit, so that a build is one command.
#include "observe.cpp"
#include "pairs.cpp"
#include "recall.cpp"

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
