#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>

#include "job/work_claimer.h"

namespace partforge {

// Where the claimer of a worker hands leases to its slots, and everybody learns that something has
// ended. Thread-safe.
class SlotBoard {
 public:
  // Waits until a slot is free; the number of free ones, 0 when stopped.
  int64_t WaitForFree(std::stop_token stop);
  void Give(ClaimedWork work);
  // Waits for work; nothing once the board is closed and empty. The slot counts as free while it
  // waits.
  std::optional<ClaimedWork> Take();
  // A slot has ended its lease, or a commit moved: whoever found nothing to do may look again.
  void Announce();
  // Waits for news after `seen`, at most `ms`; the number of announcements so far.
  int64_t WaitForNews(int64_t seen, int64_t ms, std::stop_token stop);
  // No more leases will be given.
  void Close();
  // A slot ends for good.
  void Leave();
  // Waits until `slots` have left, at most `ms`; false when some have not.
  bool WaitForLeave(int64_t slots, int64_t ms);
  // True while no slot works and nothing waits to be taken.
  bool IsQuiet(int64_t slots);

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<ClaimedWork> given_;  // guarded by mutex_
  int64_t waiting_ = 0;            // slots in Take; guarded by mutex_
  int64_t news_ = 0;               // guarded by mutex_
  int64_t left_ = 0;               // slots that ended; guarded by mutex_
  bool is_closed_ = false;         // guarded by mutex_
};

}  // namespace partforge
