#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/context.h"
#include "clickhouse/slot_engines.h"
#include "job/job_store.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

// How much of an artifact is read again (user-experience §5.4).
enum class VerifyDepth : uint8_t {
  kMeta,       // references, sizes, counts
  kChecksums,  // every byte: tar digest, and each file against the part's own list
  kEngine,     // attached in the embedded engine: CHECK TABLE and count
  kRows,       // and the hash of all rows equals that of the SELECT over its source parts
};
Result<VerifyDepth> ParseVerifyDepth(std::string_view text);

// kWarn: nothing wrong was found, but the rows could not be compared one by one (a destination that
// merges rows, rows that TTL left out, a SELECT that is not deterministic, a source part that is
// not in the store any more).
enum class Verdict : uint8_t { kOk, kWarn, kFail };
struct VerifiedPart {
  std::string part_id, status;
  Verdict verdict = Verdict::kOk;
  std::string message;  // empty when ok
  // kFail: what differs is the copy of a source part. The artifact is as it was made, and making it
  // again from that copy would not do.
  bool is_of_source = false;
  int64_t parts = 0, rows = 0, bytes = 0;
};

struct VerifyRequest {
  std::string job_id, part_id;  // part_id empty = all that have an artifact
  VerifyDepth depth = VerifyDepth::kChecksums;
  std::function<Result<ObjectStore*>(const Context&, const std::string& bucket)> store_of_bucket;
  SlotEngines* engines = nullptr;  // kEngine and kRows need one
  std::filesystem::path scratch;   // of those; exists
  std::function<void(const VerifiedPart&)> on_part;
};

// Re-reads artifacts and compares them with what the state store and their own lists say. Never
// repairs. A damaged artifact is a kFail verdict, not a failure of the call. The call fails with
// what tells nothing of the artifact it met: a store, a machine or an engine that refuses.
Result<std::vector<VerifiedPart>> VerifyJob(const Context& ctx, StateReader& state,
                                            const VerifyRequest& request);

}  // namespace partforge::clickhouse
