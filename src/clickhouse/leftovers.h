#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "job/job_store.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

// An object below a job's prefix that no row of the state store names: what a worker left that
// died, or lost its lease.
struct Leftover {
  std::string key;
  int64_t size_bytes = 0;
  int64_t modified_ms = 0;
};

// Looks below <prefix>/jobs/<job>/finished, meta and chunks for objects that belong to no attempt
// whose result stands and to no attempt that may still be running, and that were last changed
// before `before_ms`. Never looks at source/. Reads only.
Result<std::vector<Leftover>> FindLeftovers(const Context& ctx, StateReader& state,
                                            ObjectStore& store, const std::string& job,
                                            int64_t before_ms);

// Deletes exactly these keys; each is checked again to lie below the job's root (PF8006).
Status DeleteLeftovers(const Context& ctx, ObjectStore& store, const std::string& bucket,
                       const std::string& job, const std::vector<Leftover>& leftovers);

}  // namespace partforge::clickhouse
