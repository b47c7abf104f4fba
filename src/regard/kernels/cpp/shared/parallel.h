// Runs tasks on the threads that torch already has: a second pool would compete for the cores.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace regard {

typedef void (*GompParallel)(void (*)(void*), void*, unsigned, unsigned);

inline std::atomic<GompParallel>& shared_runtime() {
  static std::atomic<GompParallel> runtime{nullptr};
  return runtime;
}

// Call work(thread) on each of the threads and wait for all: through torch's OpenMP runtime if it is
// known, else on new threads.
template <class Work>
void on_threads(int threads, Work&& work) {
  if (threads <= 1) return work(0);
  struct Shared {
    Work& work;
    std::atomic<int> next{0};
  } shared{work};
  auto enter = [](void* data) {
    Shared& own = *static_cast<Shared*>(data);
    own.work(own.next.fetch_add(1));
  };
  if (GompParallel gomp = shared_runtime().load()) {
    gomp(enter, &shared, static_cast<unsigned>(threads), 0);
    return;
  }
  std::vector<std::thread> others;
  for (int i = 1; i < threads; i++) others.emplace_back(enter, &shared);
  enter(&shared);
  for (std::thread& other : others) other.join();
}

// A run computes the rows [first_row, last_row) in tasks. It returns when all are done or `seconds` have
// passed, with `next` as the task to continue with, so that Python can handle Ctrl-C in between.
struct Progress {
  int64_t first_row, last_row;
  int64_t next;
  double seconds;
};

enum Outcome : int { DONE = 0, OUT_OF_MEMORY = 1, NOT_YET = 2 };

// Run the tasks progress.next .. count - 1 until done or out of time. make(thread) returns the function
// with which a thread does a task. The longest tasks should come first.
template <class Make>
Outcome run_tasks(int threads, int64_t count, Progress& progress, Make&& make) {
  typedef std::chrono::steady_clock Clock;
  const Clock::time_point start = Clock::now();
  std::atomic<int64_t> next{progress.next};
  std::atomic<bool> failed{false};
  const int useful = static_cast<int>(std::min<int64_t>(threads, count - progress.next));
  on_threads(useful, [&](int thread) {
    try {
      auto task = make(thread);
      for (;;) {
        const int64_t one = next.fetch_add(1);
        if (one >= count) break;
        task(one);
        // Read the clock after a task, never before the first one: every run makes progress.
        const std::chrono::duration<double> spent = Clock::now() - start;
        if (spent.count() > progress.seconds) break;
      }
    } catch (const std::bad_alloc&) {
      failed = true;  // an exception must not escape from one of torch's threads
    }
  });
  progress.next = std::min(next.load(), count);
  if (failed) return OUT_OF_MEMORY;
  return progress.next < count ? NOT_YET : DONE;
}

}  // namespace regard
