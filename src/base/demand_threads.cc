#include "base/demand_threads.h"

#include <system_error>

namespace partforge {

void DemandThreads::Add(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (free_count_ < tasks_.size() && threads_.size() < threads_max_) {
    try {
      threads_.emplace_back([this] { Run(); });
      return;
    } catch (const std::system_error&) {
      // The system gives no more threads: the task waits for one of ours.
    }
  }
  arrived_.notify_one();
}

void DemandThreads::Finish() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  arrived_.notify_all();
  threads_.clear();  // joins
}

void DemandThreads::Run() {
  pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
  std::unique_lock lock(mutex_);
  while (true) {
    ++free_count_;
    arrived_.wait(lock, [&] { return is_ending_ || !tasks_.empty(); });
    --free_count_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace partforge
