// Many short jobs in a row, for one thread that leads and others that help while they have time.
// The leader never waits for a helper that has not begun: on a busy machine it does all by itself.
#pragma once
#include <sched.h>
#include <unistd.h>

#include <condition_variable>
#include <type_traits>

#include "../shared/parallel.h"

namespace regard {

// Wait a moment; after a while, let others have the core: who is waited for may want it.
inline void rest(int idle) {
  constexpr int PATIENCE = 512;
  if (idle >= PATIENCE) return std::this_thread::yield();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The core that this thread is on, where one can know it.
inline int core() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

class Team {
 public:
  explicit Team(int threads) : threads_(threads) {}

  int threads() const { return threads_; }
  void size(int threads) { threads_ = threads; }

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

  // Do one part of the job, if one is left. With a ticket in hand the job cannot end.
  bool take() {
    uint64_t ticket = tickets_.load(std::memory_order_acquire);
    do {
      if ((ticket & LEFT) == 0) return false;
    } while (!tickets_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel));
    const Job* job = job_.load(std::memory_order_relaxed);
    job->one(job->data, static_cast<int64_t>((ticket & LEFT) - 1));
    pending_.fetch_sub(1, std::memory_order_release);
    return true;
  }

 private:
  struct Job {
    void (*one)(void*, int64_t);
    void* data;
  };
  static constexpr uint64_t LEFT = 0xffffffffu;

  int threads_;
  uint64_t phase_ = 0;
  alignas(64) std::atomic<uint64_t> tickets_{0};  // the phase, and below it how many parts are left
  alignas(64) std::atomic<int64_t> pending_{0};
  std::atomic<const Job*> job_{nullptr};
};

// The team of this process and its helpers, who stay: after a job they look for the next one a
// while, then sleep. Threads that a parallel region wakes and waits for would cost more than a
// token takes, when they wake up on the core that waits for them.
class Crew {
 public:
  // Never taken down: a helper may still sleep when the process ends.
  static Crew& shared() {
    static Crew* crew = new Crew;
    return *crew;
  }

  // Call work(team) with so many threads; alone if another thread leads, or after a fork.
  template <class Work>
  void lead(int threads, Work&& work) {
    std::unique_lock<std::mutex> leads(leading_, std::defer_lock);
    if (threads <= 1 || getpid() != home_ || !leads.try_lock()) {
      Team alone(1);
      return work(alone);
    }
    hire(threads - 1);
    team_.size(threads);
    core_.store(core(), std::memory_order_relaxed);
    wanted_.store(threads - 1, std::memory_order_release);
    if (sleeping_.load(std::memory_order_acquire) > 0) wake();
    work(team_);
  }

 private:
  typedef std::chrono::steady_clock Clock;

  void hire(int helpers) {
    for (; hired_ < helpers; hired_++) std::thread(&Crew::help, this, hired_).detach();
  }

  void wake() {
    {
      std::lock_guard<std::mutex> lock(asleep_);
      calls_++;
    }
    awake_.notify_all();
  }

  void help(int number) {
    for (;;) {
      stay(number);
      std::unique_lock<std::mutex> lock(asleep_);
      const uint64_t heard = calls_;
      sleeping_.fetch_add(1);
      awake_.wait(lock, [&] { return calls_ != heard; });
      sleeping_.fetch_sub(1);
    }
  }

  // Take what there is to do, until there has been nothing for a while.
  void stay(int number) {
    constexpr std::chrono::microseconds LONG{1500};
    constexpr int BETWEEN = 32;  // looks at the clock
    Clock::time_point last = Clock::now();
    for (;;) {
      if (number < wanted_.load(std::memory_order_acquire) && apart() && team_.take()) {
        while (team_.take()) {
        }
        last = Clock::now();
        continue;
      }
      for (int i = 0; i < BETWEEN; i++) rest(0);
      if (Clock::now() - last > LONG) return;
    }
  }

  // Whether this helper is on a core of its own. On the leader's it would take the time of the one
  // who waits for it: it sleeps a moment instead, and wakes up where there is room.
  bool apart() {
    const int here = core();
    if (here < 0 || here != core_.load(std::memory_order_relaxed)) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return false;
  }

  const pid_t home_ = getpid();
  Team team_{1};
  int hired_ = 0;
  std::mutex leading_, asleep_;
  std::condition_variable awake_;
  uint64_t calls_ = 0;
  std::atomic<int> wanted_{0}, sleeping_{0}, core_{-1};
};

template <class Work>
void with_team(int64_t threads, Work&& work) {
  Crew::shared().lead(static_cast<int>(threads), work);
}

}  // namespace regard
