#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/wire.h"
#include "base/units.h"
#include "clickhouse/artifact.h"
#include "clickhouse/leftovers.h"
#include "clickhouse/rewrite_job.h"
#include "job/run_folder.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  BucketStores stores(input);
  const bool deletes = input.options.Bool("delete");
  std::vector<JobView> jobs;
  PF_ASSIGN(const JobId wanted, JobNamed(input));
  if (!wanted.empty()) {
    PF_ASSIGN(JobView view, state->View(input.ctx, wanted));
    jobs.push_back(std::move(view));
  } else {
    PF_ASSIGN(jobs, state->ListJobs(input.ctx));
  }
  const int64_t age_ms_min = input.options.DurationMs("older-than");
  const int64_t now_ms = input.ctx.clock.NowMs(), before_ms = now_ms - age_ms_min;
  Table table{{{.title = "KEY", .is_right_aligned = false, .may_be_cut = true},
               {.title = "SIZE", .is_right_aligned = true},
               {.title = "CHANGED"}},
              {}};
  JsonDoc list = JsonDoc::array();
  int64_t bytes = 0, count = 0, unfinished = 0;
  for (const JobView& view : jobs) {
    if (view.job.kind != clickhouse::kRewriteKind) continue;
    PF_ASSIGN(const clickhouse::RewriteJobSpec job,
              clickhouse::RewriteJobSpec::FromJson(view.job.spec));
    PF_ASSIGN(ObjectStore* const store, stores.Get(input.ctx, job.bucket));
    PF_ASSIGN(const std::vector<clickhouse::Leftover> leftovers,
              clickhouse::FindLeftovers(input.ctx, *state, *store, view.job.id, before_ms));
    for (const clickhouse::Leftover& leftover : leftovers) {
      table.rows.push_back({leftover.key, FormatBytes(leftover.size_bytes),
                            WhenText(input.out.style(), leftover.modified_ms, now_ms)});
      list.push_back(JsonDoc{{"job_id", view.job.id},
                             {"key", leftover.key},
                             {"bytes", leftover.size_bytes},
                             {"modified_at", TimeOrNull(leftover.modified_ms)}});
      input.out.Answer(leftover.key);
      bytes += leftover.size_bytes;
      ++count;
    }
    if (!deletes) continue;
    PF_TRY(clickhouse::DeleteLeftovers(input.ctx, *store, job.bucket, view.job.id, leftovers));
    // Writes that their process never ended are no objects: only the store knows of them.
    PF_ASSIGN(const clickhouse::JobKeys keys, clickhouse::JobKeys::Make(job.prefix, view.job.id));
    const Result<int64_t> ended = store->SweepLeftovers(input.ctx, keys.root() + "/", age_ms_min);
    if (ended.ok()) {
      unfinished += *ended;
    } else {
      PF_TRY(input.ctx.CheckStop("gc"));
      Ignore(input.ctx, ended.status(),
             "unfinished writes stay; the bucket may have rules for them");
    }
  }
  std::vector<std::filesystem::path> abandoned;
  std::error_code error;
  if (std::filesystem::status(WorkDir(input), error).type() !=
      std::filesystem::file_type::not_found) {
    PF_ASSIGN(abandoned, RunFolder::Abandoned(input.ctx, WorkDir(input)));
    if (deletes) PF_TRY(RunFolder::Sweep(input.ctx, WorkDir(input)));
  }
  JsonDoc folder_list = JsonDoc::array();
  for (const std::filesystem::path& folder : abandoned) folder_list.push_back(folder.string());
  const auto folders = static_cast<int64_t>(abandoned.size());
  if (count > 0) input.out.Text(RenderTable(table, input.out.style()));
  for (const std::filesystem::path& folder : abandoned) {
    input.out.Line(fmt::format("scratch  {}", folder.string()));
    input.out.Answer(folder.string());
  }
  input.out.Line(fmt::format("{} {} leftover objects, {}; {} scratch folders of dead processes{}",
                             deletes ? "removed" : "found", FormatCount(count), FormatBytes(bytes),
                             folders,
                             !deletes && count + folders > 0 ? "   (--delete removes them)" : ""));
  input.out.Document("gc", JsonDoc{{"deleted", deletes},
                                   {"objects", list},
                                   {"bytes", bytes},
                                   {"unfinished_writes", unfinished},
                                   {"scratch_folders", folders},
                                   {"folders", folder_list}});
  if (unfinished > 0)
    input.out.Line(fmt::format("removed {} unfinished writes", FormatCount(unfinished)));
  if (count + folders + unfinished == 0 && input.options.Bool("fail-if-empty"))
    return Status(Code::kNotFound, "there is nothing to remove")
        .Explain(1016, "gc", "nothing to do");
  return {};
}

}  // namespace

Command GcCommand() {
  return {
      {.name = "gc",
       .purpose = "Lists objects that dead workers left behind, and removes them with --delete.",
       .arguments = "[JOB]",
       .arguments_min = 0,
       .arguments_max = 1,
       .examples = {"partforge gc", "partforge gc job-5f0e11aa22bb33cc --delete"},
       .options = Join({{{.name = "job-id",
                          .help = "one job, when it is not the argument (default: all)",
                          .refuses_empty = true},
                         {.name = "older-than",
                          .type = OptionType::kDuration,
                          .default_text = "24h",
                          .help = "only what was not changed for so long",
                          .group = "Limits"},
                         {.name = "delete",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "remove what is listed, and scratch of dead workers"}},
                        StateOptions(),
                        StoreOptions(),
                        {{.name = "work-dir",
                          .help = "scratch folder of workers on this machine",
                          .group = "Where"}}}),
       .related = {"list-jobs"}},
      Run};
}

}  // namespace partforge::app
