#include "data/file_concat.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "data/file_inspect.h"
#include "data/parquet_sink.h"
#include "data/parquet_source.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

class Concatenation {
 public:
  Concatenation(ObjectStore& store, const ConcatOptions& options, ArrowMemory& memory,
                ConcatReport& report)
      : store_(store), options_(options), memory_(memory), report_(report) {}

  Status Plan(const Context& ctx) {
    if (report_.inputs.empty()) return Status(Code::kInvalidArgument, "concat: no input");
    for (const std::string& key : report_.inputs) {
      PF_ASSIGN(auto object, store_.Open(ctx, key));
      PF_ASSIGN(const FileFormat format, DetectFormat(ctx, *object, key));
      if (format != FileFormat::kParquet) {
        return Status(Code::kRefused, fmt::format("concat: only Parquet files can be joined; {} is "
                                                  "{}",
                                                  key, FormatName(format)));
      }
      report_.bytes_in += object->size_bytes();
      PF_ASSIGN(auto input, OpenParquetInput(ctx, std::move(object), key));
      report_.rows_in += input->footer.num_rows();
      inputs_.push_back({.file = std::move(input)});
    }
    const MatchBy match = AllHaveIds() ? MatchBy::kFieldId : MatchBy::kName;
    for (RewriteInput& input : inputs_) input.mapping.match = match;
    target_.copy.schema = &inputs_[0].file->schema();
    target_.copy.match = match;
    target_.copy.row_group_bytes = options_.row_group_bytes;
    target_.decodes_always = options_.decodes_always;
    PF_ASSIGN(report_.steps, PlanRewrite(inputs_, target_));
    return {};
  }

  Status Run(const Context& ctx, const std::string& output) {
    PF_TRY(RefuseExisting(ctx, output));
    PF_ASSIGN(const auto schema, ReadParquetSchema(ctx, *inputs_[0].file->source,
                                                   inputs_[0].file->file_name, memory_));
    // The schema of Arrow that a footer may carry says more than the columns do: what is written
    // follows the columns.
    const auto factory = [&](const Context& c, int64_t) -> Result<RollingSink::Opened> {
      RollingSink::Opened opened{.key = output, .sink = nullptr};
      PF_ASSIGN(auto bytes, store_.Create(c, output, report_.bytes_in));
      ParquetSinkOptions sink_options;
      sink_options.row_group_bytes = options_.row_group_bytes;
      sink_options.schema_of = &inputs_[0].file->footer;
      PF_ASSIGN(opened.sink, ParquetSink::Open(c, std::move(bytes), output, schema,
                                               std::move(sink_options), memory_));
      return opened;
    };
    RollingSink sink(store_, factory, {.size_bytes = INT64_MAX});
    Status status = Write(ctx, schema, sink);
    if (!status.ok()) {
      Ignore(ctx, sink.Abort(ctx), "the failure before it is what is reported");
      if (is_closed_) {
        const std::string keys[] = {output};
        Ignore(ctx, store_.Delete(ctx, keys), "the failure before it is what is reported");
      }
      return status;
    }
    return {};
  }

 private:
  bool AllHaveIds() const {
    return std::all_of(inputs_.begin(), inputs_.end(), [](const RewriteInput& input) {
      const auto& columns = input.file->columns;
      return std::all_of(columns.begin(), columns.end(),
                         [](const LeafColumn& column) { return column.field_id >= 0; });
    });
  }

  Status RefuseExisting(const Context& ctx, const std::string& output) {
    const auto there = store_.Stat(ctx, output);
    if (there.ok()) {
      return Status(Code::kAlreadyExists,
                    fmt::format("concat: there is an object of that name: {}", output));
    }
    return there.status().code() == Code::kNotFound ? Status() : there.status();
  }

  Status Write(const Context& ctx, const std::shared_ptr<arrow::Schema>& schema,
               RollingSink& sink) {
    PF_TRY(RunRewrite(ctx, inputs_, report_.steps, target_, schema, {}, sink, memory_,
                      report_.counts));
    if (report_.rows_in == 0) {
      // A file without rows has the schema all the same.
      PF_ARROW_ASSIGN(const auto none, arrow::RecordBatch::MakeEmpty(schema));
      PF_TRY(sink.Begin(ctx));
      PF_TRY(sink.Write(ctx, *none));
    }
    PF_ASSIGN(auto files, sink.Close(ctx));
    is_closed_ = true;
    if (files.size() != 1) {
      return Status(Code::kExhausted, fmt::format("concat: the rows need {} files, as a footer "
                                                  "numbers at most 32,767 row groups",
                                                  files.size()));
    }
    report_.output = std::move(files[0]);
    if (report_.output.row_count != report_.rows_in) {
      return Status(Code::kInternal, fmt::format("concat: {} rows were read and {} written",
                                                 report_.rows_in, report_.output.row_count));
    }
    if (!options_.verifies) return {};
    PF_ASSIGN(auto object, store_.Open(ctx, report_.output.key));
    PF_ASSIGN([[maybe_unused]] const FileReport read_back,
              InspectFile(ctx, *object, report_.output.key, Inspection::kDecode, memory_));
    return {};
  }

  ObjectStore& store_;
  const ConcatOptions options_;
  ArrowMemory& memory_;
  ConcatReport& report_;
  std::vector<RewriteInput> inputs_;
  RewriteTarget target_;
  bool is_closed_ = false;  // the output is visible
};

}  // namespace

Result<ConcatReport> ConcatFiles(const Context& ctx, ObjectStore& store,
                                 std::vector<std::string> inputs, const std::string& output,
                                 const ConcatOptions& options, ArrowMemory& memory) {
  ConcatReport report;
  report.inputs = std::move(inputs);
  Concatenation concatenation(store, options, memory, report);
  PF_TRY(concatenation.Plan(ctx));
  if (options.is_dry_run) return report;
  PF_TRY(concatenation.Run(ctx, output));
  return report;
}

}  // namespace partforge::data
