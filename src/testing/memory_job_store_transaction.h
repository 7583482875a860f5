#pragma once

#include "testing/memory_job_store.h"

namespace partforge::testing {

// Runs the body under the mutex; a body that fails leaves everything as it was.
template <class Body>
auto MemoryJobStore::Transact(Body body) -> decltype(body()) {
  const std::lock_guard lock(mutex_);
  State before = state_;
  const size_t events_before = events_.size();
  actor_.clear();
  auto outcome = body();
  if (!outcome.ok()) {
    state_ = std::move(before);
    events_.resize(events_before);
  }
  return outcome;
}

}  // namespace partforge::testing
