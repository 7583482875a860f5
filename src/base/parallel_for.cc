#include "base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace partforge {
namespace {

// The failure of the smallest index, and the stop it causes. Thread-safe.
class FirstFailure {
 public:
  void Take(int64_t index, Status status) {
    const std::lock_guard lock(mutex_);
    if (status.ok()) return;
    // A body that ended because of the stop says nothing about the failure that caused it.
    const bool was_stopped = index_ >= 0 && status_.code() == Code::kCancelled;
    const bool is_stopped = status.code() == Code::kCancelled;
    const bool is_smaller = is_stopped == was_stopped ? index < index_ : was_stopped;
    if (index_ < 0 || is_smaller) {
      index_ = index;
      status_ = std::move(status);
    }
    stop_.request_stop();
  }
  std::stop_source& stop() { return stop_; }
  Status Get() {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  std::stop_source stop_;
  std::mutex mutex_;
  int64_t index_ = -1;  // guarded by mutex_
  Status status_;       // guarded by mutex_
};

}  // namespace

Status ParallelFor(const Context& ctx, int64_t count, int threads,
                   const std::function<Status(const Context&, int64_t)>& body) {
  FirstFailure failure;
  const std::stop_callback pass_on(ctx.stop, [&] { failure.stop().request_stop(); });
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    Context own = ctx;
    own.stop = failure.stop().get_token();
    while (!own.IsStopping()) {
      const int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      failure.Take(index, body(own, index));
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int64_t i = 1; i < std::min<int64_t>(threads, count); ++i) helpers.emplace_back(work);
    work();
  }
  PF_TRY(failure.Get());
  // Every index below `next` was run; the rest only a stop can have left out.
  return next.load() >= count ? Status() : ctx.CheckStop("running a parallel loop");
}

}  // namespace partforge
