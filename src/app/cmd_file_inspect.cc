#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/avro_record.h"
#include "app/commands.h"
#include "app/file_places.h"
#include "app/file_report.h"
#include "app/option_groups.h"
#include "data/avro_report.h"

namespace partforge::app {
namespace {

constexpr int kFilesMax = 100'000;
constexpr int64_t kRecordsMax = 100'000;

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

struct Inspected {
  data::FileReport report;
  JsonDoc records = JsonDoc::array();  // of Avro, as many as were asked for
};

Result<Inspected> Inspect(const CommandInput& input, FilePlaces& places, const std::string& name,
                          data::Inspection inspection, data::ArrowMemory& memory) {
  PF_ASSIGN(const data::StoredFile file, places.Input(input.ctx, name));
  PF_ASSIGN(const auto object, file.store->Open(input.ctx, file.key));
  auto report = data::InspectFile(input.ctx, *object, file.name, inspection, memory);
  if (!report.ok()) return ExplainFile(report.status(), file.name);
  Inspected inspected{.report = *std::move(report)};
  const int64_t record_count = input.options.Int("records");
  if (record_count == 0) return inspected;
  if (inspected.report.format != data::FileFormat::kAvro) {
    return Status(Code::kInvalidArgument,
                  fmt::format("records are shown of Avro files, this one is {}: {}",
                              data::FormatName(inspected.report.format), file.name))
        .Explain(1020, file.name, "leave out --records, or name Avro files only");
  }
  const Status status = data::ForAvroRecords(
      input.ctx, *object, file.name, record_count,
      [&](const data::AvroType& type, const data::AvroValue& record) -> Status {
        inspected.records.push_back(AvroRecordJson(type, record));
        return {};
      });
  if (!status.ok()) return ExplainFile(status, file.name);
  return inspected;
}

Status Run(const CommandInput& input) {
  FilePlaces places(input);
  data::ArrowMemory memory(input.ctx.memory);
  auto inspection = data::Inspection::kFooter;
  if (input.options.Bool("pages")) inspection = data::Inspection::kPages;
  if (input.options.Bool("decode")) inspection = data::Inspection::kDecode;
  const auto view = input.options.Bool("details") ? InspectView::kDetails : InspectView::kSummary;
  const int64_t record_count = input.options.Int("records");
  if (record_count < 0 || record_count > kRecordsMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--records is not between 0 and {}: {}", kRecordsMax, record_count))
        .Explain(1005, "--records", "give how many records to show");
  }
  JsonDoc files = JsonDoc::array();
  Status first_failure;
  int64_t failed = 0, shown = 0;
  for (const std::string& name : input.options.arguments()) {
    PF_TRY(input.ctx.CheckStop("inspecting files"));
    auto inspected = Inspect(input, places, name, inspection, memory);
    if (!inspected.ok()) {
      const Status& status = inspected.status();
      if (failed++ == 0) first_failure = status;
      JsonDoc failure{{"file", Printable(name)}, {"error", ErrorDocument(status)}};
      input.out.Line(fmt::format("{}{}   FAIL   {}", shown++ > 0 ? "\n" : "", Printable(name),
                                 Printable(status.message())));
      if (input.out.style().is_ndjson) input.out.Object(failure);
      files.push_back(std::move(failure));
      continue;
    }
    if (shown++ > 0) input.out.Line();
    input.out.Text(InspectText(inspected->report, view, input.out.style()));
    if (record_count > 0) input.out.Line();
    for (const JsonDoc& record : inspected->records) input.out.Line(DumpJson(record));
    JsonDoc document = InspectDocument(inspected->report);
    if (record_count > 0) document["records"] = std::move(inspected->records);
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
                    "partforge file inspect s3://lake/db/t/data/0.parquet --pages --json",
                    "partforge file inspect lake/metadata/manifest.avro --records=3"},
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
                          .help = "read all rows, records, blobs; compare counts with the footer"},
                         {.name = "records",
                          .type = OptionType::kInt,
                          .default_text = "0",
                          .help = "the first so many records of Avro, each a line of JSON"}},
                        StoreOptions()}),
       .related = {"file concat"}},
      Run};
}

}  // namespace partforge::app
