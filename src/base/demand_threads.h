#pragma once

#include <signal.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace partforge {

// Threads made as tasks need them and kept for later ones; a task waits only when `threads_max` are
// busy. Tasks run with the signal mask given. Thread-safe.
class DemandThreads {
 public:
  DemandThreads(size_t threads_max, const sigset_t& signals)
      : threads_max_(threads_max), signals_(signals) {}
  ~DemandThreads() { Finish(); }
  DemandThreads(const DemandThreads&) = delete;
  DemandThreads& operator=(const DemandThreads&) = delete;

  void Add(std::function<void()> task);
  // Runs what was added and ends the threads; nothing may be added any more.
  void Finish();

 private:
  void Run();

  const size_t threads_max_;
  const sigset_t signals_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  size_t free_count_ = 0;                    // threads that wait for a task; guarded by mutex_
  bool is_ending_ = false;                   // guarded by mutex_
  std::vector<std::jthread> threads_;        // guarded by mutex_ until is_ending_
};

}  // namespace partforge
