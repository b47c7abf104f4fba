// Threads for many short jobs in a row, such as the products of one decoding step.
//
// The calling thread leads and the workers help while they have time. The leader never waits for a
// worker that has not begun: on a busy machine it does everything itself. An OpenMP region per
// product would cost more than a token takes, because its threads are woken and waited for each time.
#pragma once
#include <sched.h>
#include <unistd.h>

#include <condition_variable>
#include <type_traits>

#include "../shared/parallel.h"

namespace regard {

// Wait a moment in a spin loop; after many rounds, yield the core to whoever is waited for.
inline void spin_wait(int round) {
  constexpr int ROUNDS_BEFORE_YIELD = 512;
  if (round >= ROUNDS_BEFORE_YIELD) return std::this_thread::yield();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The core that this thread runs on; -1 where the system does not tell.
inline int current_core() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

// One job at a time, cut into numbered parts that the leader and the workers take.
class WorkerPool {
 public:
  explicit WorkerPool(int threads) : threads_(threads) {}

  int threads() const { return threads_; }
  void set_threads(int threads) { threads_ = threads; }

  // Call part(i) for each i below count, on whichever thread takes it; only the leader calls this.
  template <class Part>
  void run(int64_t count, Part&& part) {
    if (threads_ <= 1 || count <= 1) {
      for (int64_t i = 0; i < count; i++) part(i);
      return;
    }
    Job job{[](void* data, int64_t i) { (*static_cast<std::remove_reference_t<Part>*>(data))(i); },
            const_cast<void*>(static_cast<const void*>(&part))};
    job_.store(&job, std::memory_order_relaxed);
    pending_.store(count, std::memory_order_relaxed);
    number_++;
    tickets_.store(number_ << 32 | static_cast<uint64_t>(count), std::memory_order_release);
    while (take_part()) {
    }
    for (int round = 0; pending_.load(std::memory_order_acquire) > 0; round++) spin_wait(round);
  }

  // Do one part of the current job; false if none is left. The job lives until all taken parts are
  // done, because the leader waits for pending_ to reach zero.
  bool take_part() {
    uint64_t ticket = tickets_.load(std::memory_order_acquire);
    do {
      if ((ticket & PARTS_LEFT) == 0) return false;
    } while (!tickets_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel));
    const Job* job = job_.load(std::memory_order_relaxed);
    job->run(job->data, static_cast<int64_t>((ticket & PARTS_LEFT) - 1));
    pending_.fetch_sub(1, std::memory_order_release);
    return true;
  }

 private:
  struct Job {
    void (*run)(void*, int64_t);
    void* data;
  };
  static constexpr uint64_t PARTS_LEFT = 0xffffffffu;

  int threads_;
  uint64_t number_ = 0;
  // The number of the job in the upper half, the parts that nobody has taken in the lower half: a
  // thread that slept through a job cannot take a part of the next one by mistake.
  alignas(64) std::atomic<uint64_t> tickets_{0};
  alignas(64) std::atomic<int64_t> pending_{0};
  std::atomic<const Job*> job_{nullptr};
};

// The worker threads of this process. They stay: after a job they look for the next one for a while,
// then sleep until they are woken.
class Workers {
 public:
  // Never destroyed: a worker may still be asleep when the process ends.
  static Workers& shared() {
    static Workers* workers = new Workers;
    return *workers;
  }

  // Call work(pool) with this many threads; with one if another thread is leading, or after a fork.
  template <class Work>
  void lead(int threads, Work&& work) {
    std::unique_lock<std::mutex> leads(leading_, std::defer_lock);
    if (threads <= 1 || getpid() != process_ || !leads.try_lock()) {
      WorkerPool alone(1);
      return work(alone);
    }
    start_threads(threads - 1);
    pool_.set_threads(threads);
    leader_core_.store(current_core(), std::memory_order_relaxed);
    active_.store(threads - 1, std::memory_order_release);
    if (sleeping_.load(std::memory_order_acquire) > 0) wake_all();
    work(pool_);
  }

 private:
  typedef std::chrono::steady_clock Clock;

  void start_threads(int workers) {
    for (; started_ < workers; started_++) std::thread(&Workers::loop, this, started_).detach();
  }

  void wake_all() {
    {
      std::lock_guard<std::mutex> lock(sleep_lock_);
      wake_count_++;
    }
    wake_.notify_all();
  }

  void loop(int number) {
    for (;;) {
      work_until_idle(number);
      std::unique_lock<std::mutex> lock(sleep_lock_);
      const uint64_t seen = wake_count_;
      sleeping_.fetch_add(1);
      wake_.wait(lock, [&] { return wake_count_ != seen; });
      sleeping_.fetch_sub(1);
    }
  }

  // Take parts of jobs until there has been nothing to do for a while.
  void work_until_idle(int number) {
    constexpr std::chrono::microseconds IDLE_LIMIT{1500};
    constexpr int ROUNDS_PER_CLOCK_READ = 32;
    Clock::time_point last = Clock::now();
    for (;;) {
      if (number < active_.load(std::memory_order_acquire) && on_own_core() && pool_.take_part()) {
        while (pool_.take_part()) {
        }
        last = Clock::now();
        continue;
      }
      for (int i = 0; i < ROUNDS_PER_CLOCK_READ; i++) spin_wait(0);
      if (Clock::now() - last > IDLE_LIMIT) return;
    }
  }

  // True if this worker is not on the leader's core. There it would take time from the thread that
  // waits for it: it sleeps for a moment instead, and wakes up on a free core.
  bool on_own_core() {
    const int here = current_core();
    if (here < 0 || here != leader_core_.load(std::memory_order_relaxed)) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return false;
  }

  const pid_t process_ = getpid();
  WorkerPool pool_{1};
  int started_ = 0;
  std::mutex leading_, sleep_lock_;
  std::condition_variable wake_;
  uint64_t wake_count_ = 0;
  std::atomic<int> active_{0}, sleeping_{0}, leader_core_{-1};
};

// Call work(pool) with this many threads of the process.
template <class Work>
void with_workers(int64_t threads, Work&& work) {
  Workers::shared().lead(static_cast<int>(threads), work);
}

}  // namespace regard
