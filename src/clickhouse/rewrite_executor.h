#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/machine.h"
#include "clickhouse/insert_tier.h"
#include "clickhouse/kept_tables.h"
#include "clickhouse/local_schemas.h"
#include "clickhouse/local_tables.h"
#include "clickhouse/rewrite_check.h"
#include "clickhouse/slot_engines.h"
#include "job/job_store.h"
#include "job/kind.h"
#include "store/object_store.h"

namespace partforge::clickhouse {

inline constexpr int64_t kMergeRuntimeMs = 300'000;  // default of --merge-max-runtime

// The worker's flags that change how a part is rewritten (clickhouse-parts §8.4).
struct RewriteSettings {
  std::string compression_codec = "ZSTD(5)";
  int64_t merge_runtime_ms_max = kMergeRuntimeMs;  // 0 = the default
  int64_t chunk_rows_min = 10'000'000;
  bool is_chunk_rows_explicit = false;
  std::optional<InsertTier> tier;
  VerifyMode verify = VerifyMode::kCounts;
  TtlPolicy ttl = TtlPolicy::kKeep;
  MachineLimits limits;  // of the whole process; divided by `slots`
  int64_t slots = 1;
  int64_t memory_cap_bytes = 0;  // --memory; what all slots may use together
  double free_space_fraction_min = 0.1;
  int files_in_parallel = 8;
};

// What an attempt did when it failed: copy objects, or work on what it had.
enum class FailedIn : uint8_t { kTransfer, kWork };

// How the lease ends after a failure (clickhouse-parts §15). What the engine's number says goes
// before the bare code. Released: a full disk, and a store or a machine that refuses (class env).
// What may pass is left to the worker, which releases with its own back-off, but for a part whose
// engine failed so often that it is no longer believed. All else is FAILED. Pure.
Result<Settlement> SettleFailure(const Lease& lease, Status status, FailedIn failed_in);

struct AttemptSource;

// Rewrites one uploaded source part, or several of one job together (T5b), with the slot's own
// engine and uploads the produced parts under the prefix of one of their attempts
// (clickhouse-parts §9). Safe for concurrent use by different slots; one
// ObjectStore per bucket of the job is opened by `store_of_bucket`. A crash leaves objects under
// <finished_key>.<epoch> that no row names, and scratch files.
class RewriteExecutor final : public Executor {
 public:
  // The store that holds `bucket`; must outlive the executor.
  using StoreOfBucket =
      std::function<Result<ObjectStore*>(const Context&, const std::string& bucket)>;

  RewriteExecutor(StateReader& state, StoreOfBucket store_of_bucket, SlotEngines& engines,
                  RewriteSettings settings);

  // One task: IN_PROGRESS → FINISHED with a RewriteOutput. Several: SUPERSEDED, and one added task
  // that is FINISHED; damaged ones among them FAILED; when the insert fails they all go back, to be
  // tried alone. Failures: kExhausted (class disk when
  // the scratch disk cannot hold the part, resource when memory is not enough), kCorruption for
  // damaged or contradicting data, kInvalidArgument for SQL.
  Result<Settlement> Execute(const Context& ctx, const Lease& lease, TaskScope& scope) override;

 private:
  static Result<std::vector<AttemptSource>> ReadSources(const Lease& lease);

  StateReader& state_;
  const StoreOfBucket store_of_bucket_;
  SlotEngines& engines_;
  const RewriteSettings settings_;
  LocalSchemaCache cache_;
  KeptTables kept_;
};

}  // namespace partforge::clickhouse
