#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/file_places.h"
#include "app/file_report.h"
#include "app/option_groups.h"

namespace partforge::app {
namespace {

constexpr int kFilesMax = 100'000;

Status ExplainFile(Status status, const std::string& name) {
  if (status.explanation().pf_number != 0) return status;
  if (status.code() == Code::kRefused) {
    return std::move(status).Explain(8008, name, "name a Parquet, ORC, Avro or Puffin file");
  }
  if (status.code() == Code::kCorruption) {
    return std::move(status).Explain(8007, name, "compare the file with where it came from");
  }
  return status;
}

Result<data::FileReport> Inspect(const CommandInput& input, FilePlaces& places,
                                 const std::string& name, data::Inspection inspection,
                                 data::ArrowMemory& memory) {
  PF_ASSIGN(const data::StoredFile file, places.Input(input.ctx, name));
  PF_ASSIGN(const auto object, file.store->Open(input.ctx, file.key));
  auto report = data::InspectFile(input.ctx, *object, file.name, inspection, memory);
  if (!report.ok()) return ExplainFile(report.status(), file.name);
  return report;
}

Status Run(const CommandInput& input) {
  FilePlaces places(input);
  data::ArrowMemory memory(input.ctx.memory);
  auto inspection = data::Inspection::kFooter;
  if (input.options.Bool("pages")) inspection = data::Inspection::kPages;
  if (input.options.Bool("decode")) inspection = data::Inspection::kDecode;
  const auto view = input.options.Bool("details") ? InspectView::kDetails : InspectView::kSummary;
  JsonDoc files = JsonDoc::array();
  Status first_failure;
  int64_t failed = 0, shown = 0;
  for (const std::string& name : input.options.arguments()) {
    PF_TRY(input.ctx.CheckStop("inspecting files"));
    const auto report = Inspect(input, places, name, inspection, memory);
    if (!report.ok()) {
      if (failed++ == 0) first_failure = report.status();
      JsonDoc failure{{"file", Printable(name)}, {"error", ErrorDocument(report.status())}};
      input.out.Line(fmt::format("{}{}   FAIL   {}", shown++ > 0 ? "\n" : "", Printable(name),
                                 Printable(report.status().message())));
      if (input.out.style().is_ndjson) input.out.Object(failure);
      files.push_back(std::move(failure));
      continue;
    }
    if (shown++ > 0) input.out.Line();
    input.out.Text(InspectText(*report, view, input.out.style()));
    JsonDoc document = InspectDocument(*report);
    if (input.out.style().is_ndjson) {
      input.out.Object(document);
    } else if (input.out.style().is_json) {
      files.push_back(std::move(document));
    }
  }
  if (!input.out.style().is_ndjson) input.out.Document("file-inspect", JsonDoc{{"files", files}});
  const auto count = static_cast<int64_t>(input.options.arguments().size());
  if (failed > 0 && count > 1)
    return std::move(first_failure).With(fmt::format("{} of {} files, the first", failed, count));
  return first_failure;
}

}  // namespace

Command FileInspectCommand() {
  return {
      {.name = "file inspect",
       .purpose = "Shows what Parquet, ORC, Avro and Puffin files hold: columns, row groups, "
                  "sizes, encodings, statistics, indexes, blobs.",
       .arguments = "FILE…",
       .arguments_min = 1,
       .arguments_max = kFilesMax,
       .examples = {"partforge file inspect lake/part-0.parquet --details",
                    "partforge file inspect s3://lake/db/t/data/0.parquet --pages --json"},
       .options = Join({{{.name = "details",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "all row groups, and each column of each"},
                         {.name = "pages",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "the page indexes of Parquet too"},
                         {.name = "decode",
                          .type = OptionType::kBool,
                          .default_text = "false",
                          .help = "read all rows, records, blobs; compare counts with the footer"}},
                        StoreOptions()}),
       .related = {"file concat"}},
      Run};
}

}  // namespace partforge::app
