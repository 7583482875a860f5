#include "app/row_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/time_spent.h"
#include "base/units.h"
#include "clickhouse/ddl.h"
#include "clickhouse/rewrite_check.h"
#include "job/each_task.h"

namespace partforge::app {
namespace {

// The reason without its numbers: "# rows of # bytes fit one block in # MiB". Numbers of tiers and
// codes ("T6", "code 241") belong to the kind.
std::string KindOf(std::string_view reason) {
  constexpr std::string_view kCode = "code ";
  std::string kind;
  for (size_t at = 0; at < reason.size();) {
    const auto is_digit = [&](size_t i) {
      return i < reason.size() && reason[i] >= '0' && reason[i] <= '9';
    };
    const bool is_number = is_digit(at) && !kind.ends_with('T') && !kind.ends_with(kCode);
    if (!is_digit(at)) {
      kind += reason[at++];
      continue;
    }
    const size_t begin = at;
    while (is_digit(at)) ++at;
    kind += is_number ? "#" : reason.substr(begin, at - begin);
  }
  return kind;
}

}  // namespace

void AddTier(TierUses& uses, const std::string& tier, const std::string& reason, int64_t parts,
             int64_t rows) {
  TierUse& use = uses[{tier, KindOf(reason)}];
  use.parts += parts;
  if (rows <= use.rows_max) return;
  use.rows_max = rows;
  use.reason = reason;
}

std::string TextOf(const TierUses& uses) {
  std::string text;
  for (const auto& [key, use] : uses) {
    text +=
        fmt::format("{}{} ×{} ({})", text.empty() ? "" : ", ", key.first, use.parts, use.reason);
  }
  return text;
}

JsonDoc DocumentOf(const TierUses& uses) {
  JsonDoc list = JsonDoc::array();
  for (const auto& [key, use] : uses)
    list.push_back(JsonDoc{{"tier", key.first}, {"parts", use.parts}, {"reason", use.reason}});
  return list;
}

void RowFlow::Add(int64_t source_bytes, const clickhouse::RewriteOutput& output,
                  Collapsing collapsing) {
  parts += output.source_parts;
  rows_in += output.source_rows_visible;
  rows_out += output.rows_out;
  filtered += output.source_rows_visible - output.rows_written;
  expired += output.rows_expired;
  const int64_t merged_here = output.rows_written - output.rows_expired - output.rows_out;
  merged += merged_here;
  bytes_in += source_bytes;
  bytes_out += output.bytes_out;
  bytes_decoded += output.bytes_decoded;
  peak_memory_bytes = std::max(peak_memory_bytes, output.peak_memory_bytes);
  insert_retries += std::max<int64_t>(0, output.insert_attempts - output.chunks);
  for (const auto& [stage, took_ms] : output.stage_ms) stage_ms[stage] += took_ms;
  is_conserved =
      is_conserved && (collapsing == Collapsing::kYes ? merged_here >= 0 : merged_here == 0);
  AddTier(tiers, output.tier, output.tier_reason, output.source_parts, output.source_rows_visible);
}

std::string RowFlow::Text() const {
  std::string text = fmt::format("{} in = {} out + {} filtered", FormatCount(rows_in),
                                 FormatCount(rows_out), FormatCount(filtered));
  if (expired != 0) text += fmt::format(" + {} expired", FormatCount(expired));
  if (merged != 0) text += fmt::format(" + {} merged", FormatCount(merged));
  return text + (is_conserved ? " ✓" : " ✗ NOT CONSERVED");
}

std::string RowFlow::BytesText() const {
  std::string text = fmt::format("{} → {}", FormatBytes(bytes_in), FormatBytes(bytes_out));
  if (bytes_decoded > 0) text += fmt::format("   {} decoded", FormatBytes(bytes_decoded));
  return text;
}

void RowFlow::AppendTo(JsonDoc& document) const {
  document["rows_in"] = rows_in;
  document["rows_out"] = rows_out;
  document["rows_filtered"] = filtered;
  document["rows_expired"] = expired;
  document["rows_merged"] = merged;
  document["rows_conserved"] = is_conserved;
  document["bytes_in"] = bytes_in;
  document["bytes_out"] = bytes_out;
  document["bytes_decoded"] = bytes_decoded;
  document["peak_memory_bytes"] = peak_memory_bytes;
  document["insert_retries"] = insert_retries;
  document["stage_seconds"] = DocumentOf(TimeParts(stage_ms.begin(), stage_ms.end()));
  document["tiers"] = DocumentOf(tiers);
}

Result<Collapsing> CollapsingOf(const JobView& view) {
  PF_ASSIGN(const clickhouse::RewriteJobSpec job,
            clickhouse::RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const clickhouse::CreateTable destination,
            clickhouse::ParseCreateTable(job.destination_schema));
  return clickhouse::IsCollapsingEngine(destination.engine) ? Collapsing::kYes : Collapsing::kNo;
}

Result<RowFlow> FlowOf(const Context& ctx, StateReader& state, const JobView& view) {
  PF_ASSIGN(const Collapsing collapsing, CollapsingOf(view));
  RowFlow flow;
  int64_t counted = 0;  // by the tasks
  // Tasks move while they are read, for example from FINISHED to IMPORTING: one that was missed
  // would look like lost rows.
  PF_TRY(ForEachTask(ctx, state, view.job.id, [&](const Task& task) -> Status {
    if (!HasOutput(task.state)) return {};
    counted += task.rows_out;
    PF_ASSIGN(const std::vector<AttemptView> attempts, state.Attempts(ctx, task.job, task.id));
    for (const AttemptView& attempt : attempts) {
      if (task.winner == 0 || attempt.epoch != task.winner) continue;
      PF_ASSIGN(const clickhouse::RewriteOutput output,
                clickhouse::RewriteOutput::FromJson(attempt.result));
      flow.Add(task.size_bytes, output, collapsing);
    }
    return {};
  }));
  flow.is_conserved = flow.is_conserved && counted == flow.rows_out;
  return flow;
}

Status NotConserved(const RowFlow& flow, const JobId& job) {
  return Status(Code::kCorruption, "rows of the source and of the new parts differ: " + flow.Text())
      .Explain(2137, job,
               fmt::format("nothing was published; partforge verify {} --level=rows", job));
}

Result<RowFlow> ConservedFlow(const Context& ctx, StateReader& state, const JobId& job) {
  PF_ASSIGN(const JobView view, state.View(ctx, job));
  PF_ASSIGN(RowFlow flow, FlowOf(ctx, state, view));
  if (!flow.is_conserved) return NotConserved(flow, job);
  return flow;
}

}  // namespace partforge::app
