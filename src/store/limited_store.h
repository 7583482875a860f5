#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "store/object_store.h"

namespace partforge {

// So many bytes a second, shared by whoever takes from it. Thread-safe.
class RateLimit {
 public:
  explicit RateLimit(int64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}
  // Waits until `bytes` may pass; kCancelled on stop. Takers pass in the order of their calls, each
  // after the bytes before it: nothing is saved up while nobody asks.
  Status Take(const Context& ctx, int64_t bytes);

 private:
  const int64_t bytes_per_s_;
  std::mutex mutex_;
  double free_at_ms_ = 0;  // guarded by mutex_: when what was taken so far has passed
};

// The store whose objects are read and written no faster than that (user-experience §3,
// --max-download-rate and --max-upload-rate). What the store copies by itself passes freely. Null
// limits hold nothing back; both must outlive the result and all it opens.
std::unique_ptr<ObjectStore> LimitRates(std::unique_ptr<ObjectStore> store, RateLimit* download,
                                        RateLimit* upload);

}  // namespace partforge
