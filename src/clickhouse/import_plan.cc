#include "clickhouse/import_plan.h"

#include <fmt/format.h>

#include <set>

#include "clickhouse/import_checks.h"

namespace partforge::clickhouse {
namespace {

// Of an artifact, what the attempt that stands recorded.
Result<PlannedArtifact> PlannedOf(const Context& ctx, JobStore& state, const std::string& job,
                                  const ArtifactTask& task) {
  PF_ASSIGN(const std::vector<AttemptView> attempts, state.Attempts(ctx, job, task.id));
  for (const AttemptView& attempt : attempts) {
    if (task.winner == 0 || attempt.epoch != task.winner) continue;
    PF_ASSIGN(const RewriteOutput output, RewriteOutput::FromJson(attempt.result));
    PlannedArtifact planned{.part_id = task.id,
                            .partition_parts = output.partition_parts,
                            .rows = output.rows_out,
                            .bytes = output.bytes_out};
    for (const auto& [partition, parts] : output.partition_parts) planned.parts += parts;
    return planned;
  }
  return Status(Code::kConflict, fmt::format("part {} has changed while it was read", task.id));
}

}  // namespace

Result<ImportPlan> PlanImport(const Context& ctx, JobStore& state, Engine& engine,
                              const ImportRequest& request) {
  PF_ASSIGN(const JobView view, state.View(ctx, request.job_id));
  PF_ASSIGN(const RewriteJobSpec job, RewriteJobSpec::FromJson(view.job.spec));
  PF_ASSIGN(const ImportTarget target, CheckImport(ctx, engine, request, view, job));
  PF_TRY(CheckDetachedRights(target));
  ImportPlan plan;
  plan.job_id = request.job_id;
  plan.table = request.table.ToString();
  plan.engine = target.engine;
  plan.already_imported = CountOf(view, TaskState::kImported);
  for (const Commit& commit : view.live_commits) {
    if (commit.kind == kRewriteKind) ++plan.unfinished_commits;
  }
  if (request.requires_empty || plan.already_imported > 0)
    PF_TRY(CheckPublished(ctx, state, engine, target, request));
  PF_ASSIGN(const std::vector<ArtifactTask> tasks, ListFinished(ctx, state, job, request));
  if (job.is_order_sensitive && !request.allows_reorder)
    PF_TRY(CheckOrder(ctx, state, view, job, request, tasks));
  if (!request.part_id.empty() && tasks.empty() && plan.unfinished_commits == 0)
    return NotFinished(request);
  std::set<std::string> partitions;
  for (const ArtifactTask& task : tasks) {
    PF_ASSIGN(PlannedArtifact planned, PlannedOf(ctx, state, request.job_id, task));
    plan.parts += planned.parts;
    plan.rows += planned.rows;
    plan.bytes += planned.bytes;
    for (const auto& [partition, parts] : planned.partition_parts) partitions.insert(partition);
    plan.artifacts.push_back(std::move(planned));
  }
  plan.partitions.assign(partitions.begin(), partitions.end());
  return plan;
}

}  // namespace partforge::clickhouse
