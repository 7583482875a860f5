#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/job_records.h"
#include "app/option_groups.h"
#include "app/wire.h"
#include "base/units.h"

namespace partforge::app {
namespace {

constexpr int64_t kPage = 1000;

Status Run(const CommandInput& input) {
  PF_ASSIGN(const std::unique_ptr<SqlJobStore> state, OpenState(input, SchemaUse::kRead));
  const std::string job = input.options.String("job-id");
  PF_ASSIGN(const JobView view, state->View(input.ctx, job));
  Table table{{{.title = "AT"},
               {.title = "PART", .is_right_aligned = false, .may_be_cut = true},
               {.title = "EPOCH", .is_right_aligned = true},
               {.title = "EVENT"},
               {.title = "FROM"},
               {.title = "TO"},
               {.title = "ACTOR", .is_right_aligned = false, .may_be_cut = true}},
              {}};
  const bool has_details = input.options.Bool("details");
  if (has_details)
    table.columns.push_back({.title = "DETAIL", .is_right_aligned = false, .may_be_cut = true});
  JsonDoc list = JsonDoc::array();
  int64_t after = 0;
  while (true) {
    PF_ASSIGN(const std::vector<EventView> events,
              state->Events(input.ctx, job, input.options.String("part-id"), after, kPage));
    for (const EventView& event : events) {
      after = event.seq;
      const std::string& subject = event.task.empty() ? event.commit : event.task;
      std::vector<std::string>& row = table.rows.emplace_back(
          std::vector<std::string>{WhenText(input.out.style(), event.at_ms, view.now_ms), subject,
                                   fmt::format("{}", event.epoch), event.event, event.from_state,
                                   event.to_state, event.actor});
      if (has_details) row.push_back(event.detail == "{}" ? std::string() : event.detail);
      const Result<JsonDoc> detail = ParseJson(event.detail);
      JsonDoc one{{"seq", event.seq},
                  {"at", TimeOrNull(event.at_ms)},
                  {"job_id", event.job},
                  {"part_id", event.task},
                  {"commit_id", event.commit},
                  {"epoch", event.epoch},
                  {"actor", event.actor},
                  {"event", event.event},
                  {"from", event.from_state},
                  {"to", event.to_state},
                  {"detail", detail.ok() ? *detail : JsonDoc::object()}};
      if (input.out.style().is_ndjson) input.out.Object(one);
      list.push_back(std::move(one));
    }
    if (static_cast<int64_t>(events.size()) < kPage) break;
  }
  input.out.Text(RenderTable(table, input.out.style()));
  const bool is_empty = table.rows.empty();
  if (!input.out.style().is_ndjson)
    input.out.Document("events", JsonDoc{{"job_id", job}, {"events", std::move(list)}});
  if (is_empty && input.options.Bool("fail-if-empty"))
    return Status(Code::kNotFound, "nothing has happened")
        .Explain(1016, job, fmt::format("partforge job-status --job-id={}", job));
  return {};
}

}  // namespace

Command EventsCommand() {
  return {{.name = "events",
           .purpose = "Prints the history of a job: who claimed, finished, failed and published "
                      "what, and when.",
           .arguments = "",
           .arguments_min = 0,
           .arguments_max = 0,
           .examples = {"partforge events --job-id=job-5f0e11aa22bb33cc",
                        "partforge events --job-id=job-5f0e11aa22bb33cc --output=ndjson"},
           .options = Join({{{.name = "job-id", .help = "job", .is_required = true},
                             {.name = "part-id", .help = "one part only", .refuses_empty = true},
                             DetailsOption("also what each event says of itself; times instead of "
                                           "ages")},
                            StateOptions()}),
           .related = {"job-status"}},
          Run};
}

}  // namespace partforge::app
