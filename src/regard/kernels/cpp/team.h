// Many short jobs in a row, for one thread that leads and others that help while they have time.
// The leader never waits for a helper that has not begun: on a busy machine it does all by itself.
#pragma once
#include "parallel.h"

namespace regard {

class Team {
 public:
  explicit Team(int threads) : threads_(threads) {}

  int threads() const { return threads_; }

  // Call one(i) for each i below count, on whoever takes it; only the leader calls this.
  template <class One>
  void run(int64_t count, One&& one) {
    if (threads_ <= 1 || count <= 1) {
      for (int64_t i = 0; i < count; i++) one(i);
      return;
    }
    Job job{[](void* data, int64_t i) { (*static_cast<std::remove_reference_t<One>*>(data))(i); },
            const_cast<void*>(static_cast<const void*>(&one))};
    job_.store(&job, std::memory_order_relaxed);
    pending_.store(count, std::memory_order_relaxed);
    phase_++;
    tickets_.store(phase_ << 32 | static_cast<uint64_t>(count), std::memory_order_release);
    while (take()) {
    }
    for (int idle = 0; pending_.load(std::memory_order_acquire) > 0; idle++) rest(idle);
  }

  // What each thread does: the first to come leads, the others help until it is done.
  template <class Lead>
  void work(int thread, Lead&& lead) {
    if (thread == 0) {
      lead();
      tickets_.store(OVER, std::memory_order_release);
      return;
    }
    for (int idle = 0; tickets_.load(std::memory_order_acquire) != OVER; idle++) {
      if (take()) idle = 0;
      else rest(idle);
    }
  }

 private:
  struct Job {
    void (*one)(void*, int64_t);
    void* data;
  };
  static constexpr uint64_t OVER = ~uint64_t{0}, LEFT = 0xffffffffu;
  static constexpr int PATIENCE = 512;

  // Wait a moment; after a while, let others have the core: who is waited for may want it.
  static void rest(int idle) {
    if (idle >= PATIENCE) return std::this_thread::yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  // Do one part of the job, if one is left. With a ticket in hand the job cannot end.
  bool take() {
    uint64_t ticket = tickets_.load(std::memory_order_acquire);
    do {
      if (ticket == OVER || (ticket & LEFT) == 0) return false;
    } while (!tickets_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel));
    const Job* job = job_.load(std::memory_order_relaxed);
    job->one(job->data, static_cast<int64_t>((ticket & LEFT) - 1));
    pending_.fetch_sub(1, std::memory_order_release);
    return true;
  }

  const int threads_;
  uint64_t phase_ = 0;
  alignas(64) std::atomic<uint64_t> tickets_{0};  // the phase, and below it how many parts are left
  alignas(64) std::atomic<int64_t> pending_{0};
  std::atomic<const Job*> job_{nullptr};
};

}  // namespace regard
