#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/wire.h"
#include "base/units.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  PF_ASSIGN(const std::vector<JobView> jobs, state->ListJobs(input.ctx));
  Table table{{{.title = "JOB_ID"},
               {.title = "STATUS"},
               {.title = "ARTIFACTS", .is_right_aligned = true},
               {.title = "CH_PARTS", .is_right_aligned = true},
               {.title = "PARTITIONS", .is_right_aligned = true},
               {.title = "REWRITE", .is_right_aligned = true},
               {.title = "IMPORT", .is_right_aligned = true},
               {.title = "SUBMITTED_AT"},
               {.title = "UPDATED_AT"}},
              {}};
  const bool has_details = input.options.Bool("details");
  if (has_details) {
    for (const char* title : {"STARTED_AT", "ETA", "SIZE"}) table.columns.push_back({title});
  }
  table.columns.push_back({.title = "NAME", .is_right_aligned = false, .may_be_cut = true});
  table.columns.push_back({.title = "COUNTS", .is_right_aligned = false, .may_be_cut = true});
  JsonDoc ids = JsonDoc::array(), names = JsonDoc::object(), details = JsonDoc::array();
  for (const JobView& view : jobs) {
    const JobNumbers numbers = NumbersOf(view);
    std::string counts;
    for (const TaskState one : AllTaskStates()) {
      const int64_t count = CountIn(view, one);
      if (count > 0)
        counts += fmt::format("{}{}={}", counts.empty() ? "" : ", ", TaskStateName(one), count);
    }
    const auto when = [&](int64_t at_ms) {
      return WhenText(input.out.style(), at_ms, view.now_ms);
    };
    const JsonDoc eta = EtaSeconds(view, numbers);
    std::vector<std::string>& row = table.rows.emplace_back(std::vector<std::string>{
        view.job.id, numbers.status + (view.is_paused ? " (paused)" : ""),
        FormatCount(numbers.total), FormatCount(numbers.parts_out),
        FormatCount(view.partitions_out),
        fmt::format("{}/{} {:.1f}%", numbers.rewritten, numbers.total, numbers.rewrite_percent),
        fmt::format("{}/{} {:.1f}%", numbers.imported, numbers.total, numbers.import_percent),
        when(view.created_at_ms), when(UpdatedAtMs(view))});
    if (has_details) {
      row.push_back(when(view.work_started_at_ms));
      const int64_t left_s = eta.is_null() ? 0 : eta.get<int64_t>();
      row.push_back(left_s == 0 ? "" : FormatDurationMs(left_s * 1000));
      row.push_back(fmt::format("{} of {}", FormatBytes(numbers.bytes_rewritten),
                                FormatBytes(numbers.bytes)));
    }
    row.push_back(view.job.name);
    row.push_back(counts);
    ids.push_back(view.job.id);
    input.out.Answer(view.job.id);
    if (!view.job.name.empty()) names[view.job.id] = view.job.name;
    details.push_back(JsonDoc{{"job_id", view.job.id},
                              {"name", view.job.name},
                              {"status", numbers.status},
                              {"parts_total", numbers.total},
                              {"clickhouse_parts", numbers.parts_out},
                              {"partitions", view.partitions_out},
                              {"rewrite_completed", numbers.rewritten},
                              {"rewrite_percent", numbers.rewrite_percent},
                              {"import_completed", numbers.imported},
                              {"import_percent", numbers.import_percent},
                              {"submitted_at", TimeOrNull(view.created_at_ms)},
                              {"updated_at", TimeOrNull(UpdatedAtMs(view))},
                              {"rewrite_started_at", TimeOrNull(view.work_started_at_ms)},
                              {"eta_seconds", eta},
                              {"source_bytes_total", numbers.bytes},
                              {"source_bytes_completed", numbers.bytes_rewritten},
                              {"paused", view.is_paused},
                              {"status_counts", StatusCounts(view)}});
  }
  if (jobs.empty()) {
    input.out.Line("no jobs   (partforge demo shows one; upload-freeze or rewrite makes one)");
  } else {
    input.out.Text(RenderTable(table, input.out.style()));
  }
  input.out.Document("list-jobs",
                     JsonDoc{{"jobs", ids}, {"job_names", names}, {"job_details", details}});
  if (jobs.empty() && input.options.Bool("fail-if-empty"))
    return Status(Code::kNotFound, "there are no jobs")
        .Explain(1016, "list-jobs", "partforge upload-freeze makes one");
  return {};
}

}  // namespace

Command ListJobsCommand() {
  return {
      {.name = "list-jobs",
       .purpose = "Lists jobs with their progress.",
       .arguments = "",
       .arguments_min = 0,
       .arguments_max = 0,
       .examples = {"partforge list-jobs", "partforge list-jobs --json"},
       .options = Join({{DetailsOption("also start, time that is left and size of each job; times "
                                       "instead of ages")},
                        StateOptions()}),
       .related = {"job-status", "events"}},
      Run};
}

}  // namespace partforge::app
