#include "clickhouse/part_gatherer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/failure_class.h"
#include "base/http_text.h"
#include "clickhouse/tuning.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

// On disk. What is larger has more rows than half an insert takes, or costs so much by itself that
// company saves nothing.
constexpr int64_t kSmallPartBytesMax = int64_t{256} << 20;
// A group this full is not cut for the sake of another slot: it takes a fraction of a second.
constexpr double kShareMin = 1.0 / 16;
// A group with a part that went down with its worker before is so much smaller than that one was.
constexpr int64_t kSmallerAfterCrash = 16;
constexpr int64_t kPassingFailuresTogetherMax = 3;
constexpr double kRounding = 1e-9;

// Functions whose value depends on which rows stand beside a row, or before it.
constexpr std::array<std::string_view, 10> kPlaceFunctions = {
    "blocknumber",
    "blockserializedsize",
    "blocksize",
    "neighbor",
    "rownumberinallblocks",
    "rownumberinblock",
    "runningaccumulate",
    "runningconcurrency",
    "runningdifference",
    "runningdifferencestartingwithfirstvalue"};

// The first such function that a text calls; empty = none. A text that cannot be cut counts as one
// that does.
std::string PlaceFunctionIn(std::string_view sql) {
  const auto tokens = TokenizeSql(sql);
  if (!tokens.ok()) return "a text that cannot be read";
  for (const SqlToken& token : *tokens) {
    if (!token.IsName()) continue;
    const auto name = TokenValue(token);
    if (!name.ok()) return "a name that cannot be read";
    const std::string lower = LowerCase(*name);
    if (std::find(kPlaceFunctions.begin(), kPlaceFunctions.end(), lower) != kPlaceFunctions.end())
      return *name;
  }
  return "";
}

// Whether the part's last attempts say nothing against it. What passes by itself (a store that did
// not answer) is forgiven some times; a worker that vanished while it had nothing but this part is
// not.
bool MayShare(const Task& task) {
  if (task.crashes > 0) return false;
  if (task.failure_class.empty()) return true;
  const auto is = [&](FailureClass one) { return task.failure_class == FailureClassName(one); };
  if (is(FailureClass::kCrash)) return true;
  const bool may_pass =
      is(FailureClass::kTransient) || is(FailureClass::kEnv) || is(FailureClass::kDoubt);
  return may_pass && task.attempts < kPassingFailuresTogetherMax;
}

// How many parts may be together with this one, itself included: of class `crash`, the code says
// how many its last lease had (job_store.h, Reap).
int64_t CompanyMax(const Task& task) {
  if (task.failure_class != FailureClassName(FailureClass::kCrash)) return kGatheredPartsMax;
  return std::max<int64_t>(1, task.failure_code / kSmallerAfterCrash);
}

// The share of a group's limits that one part takes; nothing when it should be alone.
// `raw_bytes_max`: uncompressed, of one block in a slot's memory.
std::optional<double> FillOf(const Task& task, double raw_bytes_max, int64_t size_bytes_max) {
  if (!MayShare(task)) return std::nullopt;
  const auto part = RewriteTaskSpec::FromJson(task.payload);
  if (!part.ok() || part->rows <= 0 || part->uncompressed_bytes <= 0) return std::nullopt;
  const auto share = [](int64_t value, double of) {
    return of <= 0 ? 1.0 : static_cast<double>(value) / of;
  };
  const double fill = std::max({share(part->rows, static_cast<double>(kGatheredRowsMax)),
                                share(part->uncompressed_bytes, raw_bytes_max),
                                share(task.size_bytes, static_cast<double>(size_bytes_max)),
                                share(1, static_cast<double>(CompanyMax(task)))});
  if (fill > 0.5) return std::nullopt;  // two of its kind do not fit
  return fill;
}

}  // namespace

std::string GatherRefusal(const RewriteJobSpec& job, const GatherRules& rules) {
  if (rules.forced && *rules.forced != InsertTier::kManyInOne)
    return fmt::format("--tier={}", TierName(*rules.forced));
  if (rules.is_chunk_rows_explicit) return "--insert-chunk-min-rows";
  if (!job.is_chunk_safe) return job.chunk_refusal;
  if (job.is_order_sensitive) return "the destination's engine depends on the order of parts";
  for (const std::string_view sql :
       {std::string_view(job.insert_select), std::string_view(job.destination_schema),
        std::string_view(job.source_schema)}) {
    const std::string function = PlaceFunctionIn(sql);
    if (!function.empty()) return fmt::format("{}: its value depends on the rows around", function);
  }
  return "";
}

std::vector<std::vector<size_t>> GatherParts(const ClaimOffer& offer, const RewriteJobSpec& job,
                                             const GatherRules& rules,
                                             const Gatherer::Limits& limits) {
  const bool may_share = GatherRefusal(job, rules).empty();
  const double raw_bytes_max =
      static_cast<double>(BlockMemoryBytes(rules.memory_cap_bytes, rules.slots)) / kOneBlockFactor;
  std::vector<std::optional<double>> fills(offer.tasks.size());
  double offered = 0;
  int64_t offered_bytes = 0;
  for (size_t i = 0; i < offer.tasks.size(); ++i) {
    if (may_share) fills[i] = FillOf(offer.tasks[i], raw_bytes_max, limits.size_bytes_max);
    if (!fills[i]) continue;
    offered += *fills[i];
    offered_bytes += offer.tasks[i].size_bytes;
  }
  // What waits behind the offer is taken to be of its kind.
  const double scale =
      offered_bytes > 0 && offer.ready_bytes > offered_bytes
          ? static_cast<double>(offer.ready_bytes) / static_cast<double>(offered_bytes)
          : 1.0;
  const double total = offered * scale;
  const auto slots = static_cast<double>(std::max<int64_t>(1, rules.slots));
  const double groups = std::max(1.0, std::ceil(std::ceil(total - kRounding) / slots)) * slots;
  double groups_left = groups, fill_left = total, target = 0;  // shares of the groups to come

  std::vector<std::vector<size_t>> leases;
  std::optional<size_t> open;  // the group that is being filled
  double fill = 0;
  int64_t company_max = 0;  // of the open group, the least of its parts'
  for (size_t i = 0; i < offer.tasks.size(); ++i) {
    const int64_t company = CompanyMax(offer.tasks[i]);
    if (fills[i] && open && fill + *fills[i] / 2 <= target && fill + *fills[i] <= 1 + kRounding &&
        std::ssize(leases[*open]) < std::min(company, company_max)) {
      company_max = std::min(company, company_max);
      leases[*open].push_back(i);
      fill += *fills[i];
      fill_left -= *fills[i];
      continue;
    }
    if (std::ssize(leases) >= limits.leases_max) {
      if (fills[i]) open.reset();  // the groups stay in the order of sizes
      continue;
    }
    leases.push_back({i});
    if (!fills[i]) continue;
    open = leases.size() - 1;
    target = std::clamp(fill_left / std::max(1.0, groups_left), kShareMin, 1.0) + kRounding;
    groups_left -= 1;
    company_max = company;
    fill = *fills[i];
    fill_left -= fill;
  }
  return leases;
}

int64_t PartGatherer::task_bytes_max() const {
  const bool is_off = rules_.forced && *rules_.forced != InsertTier::kManyInOne;
  return is_off || rules_.is_chunk_rows_explicit ? -1 : kSmallPartBytesMax;
}

// What cannot be read is taken part by part: the executor says what is wrong with it.
bool PartGatherer::MayGather(const Json& spec) const {
  const auto job = RewriteJobSpec::FromJson(spec);
  return job.ok() && GatherRefusal(*job, rules_).empty();
}

std::vector<std::vector<size_t>> PartGatherer::Gather(const ClaimOffer& offer,
                                                      const Limits& limits) const {
  const auto job = RewriteJobSpec::FromJson(offer.spec);
  if (!job.ok()) return {};  // see MayGather
  return GatherParts(offer, *job, rules_, limits);
}

}  // namespace partforge::clickhouse
