#include "data/file_concat.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "data/borrowed_source.h"
#include "data/file_inspect.h"
#include "data/parquet_source.h"
#include "data/type_mapping.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

constexpr int64_t kRunBytesMin = int64_t{4} << 20;
constexpr int kUnreadable = 8008, kNoOneSchema = 8009, kDamaged = 8007, kIsThere = 1021;

using KeyValues = std::vector<std::pair<std::string, std::string>>;

KeyValues KeyValuesOf(const ParquetFooter& footer) {
  KeyValues pairs;
  const ThriftValue* list = footer.tree.Find(file_metadata::kKeyValues);
  if (list == nullptr || list->type() != ThriftType::kList) return pairs;
  for (const ThriftValue& pair : list->items()) {
    const ThriftValue* const key = pair.Find(key_value::kKey);
    const ThriftValue* const value = pair.Find(key_value::kValue);
    if (key == nullptr || key->type() != ThriftType::kBinary) continue;
    const bool has_value = value != nullptr && value->type() == ThriftType::kBinary;
    pairs.emplace_back(key->AsBinary(), has_value ? value->AsBinary() : "");
  }
  return pairs;
}

// What a person can do about a file that cannot be joined.
Status ExplainInput(Status status, const std::string& name) {
  if (status.ok() || status.explanation().pf_number != 0) return status;
  switch (status.code()) {
    case Code::kRefused:
      return std::move(status).Explain(kUnreadable, name, "leave this file out");
    case Code::kCorruption:
      return std::move(status).Explain(kDamaged, name,
                                       "compare the file with where it came from, or leave it out");
    case Code::kInvalidArgument:
      return std::move(status).Explain(
          kNoOneSchema, name,
          "join only files of one schema; partforge file inspect FILE   shows it");
    default:
      return status;
  }
}

// Names the input that a failure speaks of: readers say the file's name. That of the output may
// contain an input's, and is no reason to blame that.
Status BlameInput(Status status, const std::vector<StoredFile>& files, const std::string& output) {
  if (status.ok() || status.explanation().pf_number != 0) return status;
  std::string without_output = status.message();
  for (size_t at = 0;
       !output.empty() && (at = without_output.find(output, at)) != std::string::npos;) {
    without_output.replace(at, output.size(), "\n");
  }
  const std::string* blamed = nullptr;
  for (const StoredFile& file : files) {
    const std::string& text = file.name.size() < output.size() ? without_output : status.message();
    const bool is_named = text.find(file.name) != std::string::npos;
    if (is_named && (blamed == nullptr || file.name.size() > blamed->size())) blamed = &file.name;
  }
  return blamed == nullptr ? status : ExplainInput(std::move(status), *blamed);
}

class Concatenation {
 public:
  Concatenation(std::vector<StoredFile> files, const ConcatOptions& options, ArrowMemory& memory,
                ConcatReport& report)
      : files_(std::move(files)), options_(options), memory_(memory), report_(report) {}

  Status Plan(const Context& ctx) {
    if (files_.empty()) return Status(Code::kInvalidArgument, "concat: no input");
    for (const StoredFile& file : files_) PF_TRY(ExplainInput(OpenInput(ctx, file), file.name));
    const MatchBy match = AllHaveIds() ? MatchBy::kFieldId : MatchBy::kName;
    for (RewriteInput& input : inputs_) {
      input.mapping = {.match = match, .absent = AbsentFields::kRefused};
    }
    target_.copy.schema = &inputs_[0].file->schema();
    target_.copy.match = match;
    target_.copy.row_group_bytes = options_.row_group_bytes;
    // Row groups are joined only as far as memory goes: what is read, and the columns that change.
    target_.run_bytes_max =
        std::clamp(ctx.memory.limit_bytes() / 4, kRunBytesMin, target_.run_bytes_max);
    target_.decodes_always = options_.decodes_always;
    if (options_.codec) target_.codec = ParquetCodecNumber(*options_.codec);
    PF_ASSIGN(schema_, ReadParquetSchema(ctx, *inputs_[0].file->source, inputs_[0].file->file_name,
                                         memory_));
    // Those of dictionaries are written as values, whatever the first file's were held in.
    schema_ = WithoutDictionaries(schema_);
    if (options_.decodes_always) PF_TRY(CheckItCanBeEncoded());
    for (RewriteInput& input : inputs_) {
      PF_TRY(ExplainInput(CheckSchema(ctx, input), input.file->file_name));
    }
    ShareKeyValues();
    PF_ASSIGN(report_.steps, PlanRewrite(inputs_, target_));
    const auto groups =
        std::count_if(report_.steps.begin(), report_.steps.end(),
                      [](const RewriteStep& step) { return step.kind != StepKind::kDecode; });
    return groups < ParquetAssembler::kRowGroupsMax ? Status() : TooManyGroups(groups);
  }

  // Whether there is a file to be replaced; refuses it when it must not be.
  Result<bool> CheckOutput(const Context& ctx, const StoredFile& output) const {
    const auto there = output.store->Stat(ctx, output.key);
    if (!there.ok() && there.status().code() == Code::kNotFound) return false;
    if (!there.ok()) return there.status();
    if (options_.overwrites) return true;
    return Status(Code::kAlreadyExists,
                  fmt::format("concat: there is a file of that name: {}", output.name))
        .Explain(kIsThere, output.name, "choose another name, or replace the file: --overwrite");
  }

  // The output is written under a name of its own where it is to replace another file, so that the
  // old one goes only when the new one has been read back.
  Status Run(const Context& ctx, const StoredFile& output) {
    PF_ASSIGN(const bool replaces, CheckOutput(ctx, output));
    std::string key = output.key;
    if (replaces) key += ".partforge-" + RandomHex(ctx.random, 8);
    const Status status = Write(ctx, output, key, replaces);
    if (!status.ok() && is_closed_) {
      Context unstopped = ctx;
      unstopped.stop = {};
      const std::string keys[] = {key};
      Ignore(ctx, output.store->Delete(unstopped, keys), "the failure before it is reported");
    }
    return status;
  }

 private:
  static Status TooManyGroups(int64_t groups) {
    return Status(Code::kInvalidArgument,
                  fmt::format("concat: the output would need {} row groups; a footer numbers at "
                              "most {}",
                              groups, ParquetAssembler::kRowGroupsMax))
        .Explain(1020, "the row groups of all inputs",
                 "larger row groups: --row-group-bytes=512MiB, or several outputs");
  }

  Status OpenInput(const Context& ctx, const StoredFile& file) {
    PF_ASSIGN(auto object, file.store->Open(ctx, file.key));
    PF_ASSIGN(const FileFormat format, DetectFormat(ctx, *object, file.name));
    if (format != FileFormat::kParquet) {
      return Status(Code::kRefused,
                    fmt::format("concat: only Parquet files can be joined; {} is {}", file.name,
                                FormatName(format)));
    }
    report_.inputs.push_back(file.name);
    report_.bytes_in += object->size_bytes();
    PF_ASSIGN(auto input, OpenParquetInput(ctx, std::move(object), file.name));
    if (input->columns.empty()) {
      return Status(Code::kRefused, fmt::format("concat: {} has no column", file.name));
    }
    report_.rows_in += input->footer.num_rows();
    inputs_.push_back({.file = std::move(input)});
    return {};
  }

  // Refused before anything is written; where pages are copied it does not matter.
  Status CheckItCanBeEncoded() const {
    const ParquetInput& first = *inputs_[0].file;
    const auto fits = DecimalStorageFor(schema_, first.footer, {}, first.file_name, memory_);
    if (fits.ok()) return {};
    if (fits.status().code() == Code::kExhausted) return fits.status();
    return Status(fits.status())
        .As(Code::kRefused)
        .Explain(kUnreadable, first.file_name, "leave out --decode: its pages can be copied");
  }

  bool AllHaveIds() const {
    return std::all_of(inputs_.begin(), inputs_.end(), [](const RewriteInput& input) {
      const auto& columns = input.file->columns;
      return std::all_of(columns.begin(), columns.end(),
                         [](const LeafColumn& column) { return column.field_id >= 0; });
    });
  }

  // Every column of the file must have a place in the output, and every column of the output one in
  // the file: rows would lose values otherwise.
  Status CheckSchema(const Context& ctx, const RewriteInput& input) {
    const ParquetInput& file = *input.file;
    PF_ASSIGN(const LeafMapping mapping, MapParquetLeaves(file.schema(), *target_.copy.schema,
                                                          target_.copy.match, file.file_name));
    const std::vector<LeafColumn>& wanted = inputs_[0].file->columns;
    if (!mapping.difference) {
      if (!mapping.missing.empty()) {
        return Lacks(wanted[static_cast<size_t>(mapping.missing[0])], file.file_name);
      }
      const std::set<int> used(mapping.leaves.begin(), mapping.leaves.end());
      for (size_t i = 0; i < file.columns.size(); ++i) {
        if (!used.contains(static_cast<int>(i))) return HasMore(file.columns[i], file.file_name);
      }
      return {};
    }
    // Rows are decoded and cast, if the types allow it.
    PF_TRY(CheckSameNames(wanted, file));
    ScanSpec spec;
    spec.wanted = schema_;
    spec.mapping = input.mapping;
    const auto source = ParquetSource::Open(ctx, std::make_unique<BorrowedSource>(*file.source),
                                            file.file_name, std::move(spec), memory_);
    if (source.ok()) return {};
    return Status(source.status())
        .With(fmt::format("column {} differs from that of {}", *mapping.difference,
                          inputs_[0].file->file_name));
  }

  void CountColumns() {
    std::string reason;
    for (const RewriteStep& step : report_.steps) {
      if (step.kind == StepKind::kDecode && reason.empty()) reason = step.reason;
    }
    const auto& stitched = report_.counts.pages.columns;
    const std::vector<LeafColumn>& columns = inputs_[0].file->columns;
    for (size_t i = 0; i < columns.size(); ++i) {
      ConcatColumn column;
      column.path = columns[i].dotted_path;
      column.chunks_copied = report_.counts.row_groups_copied;
      if (i < stitched.size()) column.pages = stitched[i];
      column.rows_decoded = report_.counts.rows_decoded + column.pages.rows_decoded;
      column.decode_reason = reason.empty() ? column.pages.decode_reason : reason;
      report_.columns.push_back(std::move(column));
    }
  }

  Status CheckSameNames(const std::vector<LeafColumn>& wanted, const ParquetInput& file) const {
    const auto name_of = [&](const LeafColumn& column) {
      return target_.copy.match == MatchBy::kFieldId ? fmt::format("{}", column.field_id)
                                                     : column.dotted_path;
    };
    std::multiset<std::string> names, own;
    for (const LeafColumn& column : wanted) names.insert(name_of(column));
    for (const LeafColumn& column : file.columns) own.insert(name_of(column));
    for (const LeafColumn& column : file.columns) {
      const std::string name = name_of(column);
      if (own.count(name) > names.count(name)) return HasMore(column, file.file_name);
    }
    for (const LeafColumn& column : wanted) {
      const std::string name = name_of(column);
      if (names.count(name) > own.count(name)) return Lacks(column, file.file_name);
    }
    return {};
  }

  Status Lacks(const LeafColumn& column, const std::string& name) const {
    return Status(Code::kInvalidArgument,
                  fmt::format("concat: {} lacks column {}, which {} has", name, column.dotted_path,
                              inputs_[0].file->file_name));
  }
  Status HasMore(const LeafColumn& column, const std::string& name) const {
    return Status(Code::kInvalidArgument,
                  fmt::format("concat: {} has column {}, which {} lacks", name, column.dotted_path,
                              inputs_[0].file->file_name));
  }

  // What all inputs say alike holds for their rows together.
  void ShareKeyValues() {
    key_values_ = KeyValuesOf(inputs_[0].file->footer);
    std::set<std::string> dropped;
    for (size_t i = 1; i < inputs_.size(); ++i) {
      const KeyValues own = KeyValuesOf(inputs_[i].file->footer);
      const auto has = [](const KeyValues& pairs, const std::pair<std::string, std::string>& pair) {
        return std::find(pairs.begin(), pairs.end(), pair) != pairs.end();
      };
      for (const auto& pair : own) {
        if (!has(key_values_, pair)) dropped.insert(pair.first);
      }
      std::erase_if(key_values_, [&](const auto& pair) {
        if (has(own, pair)) return false;
        dropped.insert(pair.first);
        return true;
      });
    }
    report_.dropped_keys.assign(dropped.begin(), dropped.end());
  }

  ParquetSinkOptions SinkOptions() const {
    const ParquetInput& first = *inputs_[0].file;
    ParquetSinkOptions sink_options;
    sink_options.row_group_bytes = options_.row_group_bytes;
    sink_options.key_values = key_values_;
    sink_options.schema_of = &first.footer;
    sink_options.codec_level = options_.codec_level;
    if (options_.codec) sink_options.codec = *options_.codec;
    for (size_t i = 0; !options_.codec && i < first.columns.size(); ++i) {
      if (first.footer.row_group_count() == 0) break;
      const auto view = ViewChunk(first.footer.chunk(0, static_cast<int>(i)), first.file_name);
      if (!view.ok()) continue;
      sink_options.columns.push_back({.path = first.columns[i].dotted_path,
                                      .codec = ParquetCodecOfNumber(view->codec),
                                      .codec_level = options_.codec_level});
    }
    return sink_options;
  }

  Status Write(const Context& ctx, const StoredFile& output, const std::string& key,
               bool replaces) {
    // The schema of Arrow that a footer may carry says more than the columns do: what is written
    // follows the columns.
    const auto factory = [&](const Context& c, int64_t number) -> Result<RollingSink::Opened> {
      if (number > 0) {
        is_closed_ = true;  // the one before is
        return TooManyGroups(ParquetAssembler::kRowGroupsMax + 1);
      }
      RollingSink::Opened opened{.key = key, .sink = nullptr};
      PF_ASSIGN(auto bytes, output.store->Create(c, key, report_.bytes_in));
      PF_ASSIGN(opened.sink, ParquetSink::Open(c, std::move(bytes), output.name, schema_,
                                               SinkOptions(), memory_));
      return opened;
    };
    RollingSink sink(*output.store, factory, {.size_bytes = INT64_MAX});
    PF_TRY(WriteRows(ctx, output, sink));
    auto closed = sink.Close(ctx);
    if (!closed.ok()) {
      // It may be visible all the same.
      Ignore(ctx, sink.Abort(ctx), "the failure before it is what is reported");
      return closed.status();
    }
    is_closed_ = true;
    report_.output = std::move((*closed)[0]);
    if (report_.output.row_count != report_.rows_in) {
      return Status(Code::kInternal, fmt::format("concat: {} rows were read and {} written",
                                                 report_.rows_in, report_.output.row_count));
    }
    PF_TRY(Verify(ctx, output, key));
    CountColumns();
    report_.output.key = output.key;
    if (!replaces) return {};
    PF_TRY(output.store->Link(ctx, key, output.key));
    PF_FAULT(ctx, "data.replaced_by_concat");
    const std::string keys[] = {key};
    Ignore(ctx, output.store->Delete(ctx, keys), "the output stands; this is its other name");
    return {};
  }

  Status Verify(const Context& ctx, const StoredFile& output, const std::string& key) {
    if (options_.verify == VerifyMode::kNone) return {};
    PF_ASSIGN(const auto object, output.store->Open(ctx, key));
    auto looked_at = VerifyRewrite(
        ctx, options_.verify, {.inputs = inputs_, .target = target_, .schema = schema_},
        {{.bytes = object.get(), .name = output.name, .row_count = report_.output.row_count}},
        memory_);
    if (!looked_at.ok()) return BlameInput(looked_at.status(), files_, output.name);
    report_.verify = options_.verify;
    report_.verified = *looked_at;
    return {};
  }

  // Up to the point where the output becomes visible: a failure leaves nothing, and above all not
  // somebody else's file of that name deleted.
  Status WriteRows(const Context& ctx, const StoredFile& output, RollingSink& sink) {
    StitchOptions stitch;
    stitch.codec_level = options_.codec_level;
    PF_TRY(BlameInput(RunRewrite(ctx, inputs_, report_.steps, target_, schema_, stitch, sink,
                                 memory_, report_.counts),
                      files_, output.name));
    if (report_.rows_in == 0) {
      // A file without rows has the schema all the same.
      PF_ARROW_ASSIGN(const auto none, arrow::RecordBatch::MakeEmpty(schema_));
      PF_TRY(sink.Begin(ctx));
      PF_TRY(sink.Write(ctx, *none));
    }
    // Somebody else may have written it meanwhile.
    PF_ASSIGN([[maybe_unused]] const bool is_there, CheckOutput(ctx, output));
    return {};
  }

  const std::vector<StoredFile> files_;
  const ConcatOptions options_;
  ArrowMemory& memory_;
  ConcatReport& report_;
  std::vector<RewriteInput> inputs_;
  RewriteTarget target_;
  std::shared_ptr<arrow::Schema> schema_;
  KeyValues key_values_;
  bool is_closed_ = false;  // what was written is visible
};

}  // namespace

Result<ConcatReport> ConcatFiles(const Context& ctx, std::vector<StoredFile> inputs,
                                 const StoredFile& output, const ConcatOptions& options,
                                 ArrowMemory& memory) {
  ConcatReport report;
  Concatenation concatenation(std::move(inputs), options, memory, report);
  PF_TRY(concatenation.Plan(ctx));
  if (options.is_dry_run) {
    PF_TRY(concatenation.CheckOutput(ctx, output));
    return report;
  }
  PF_TRY(concatenation.Run(ctx, output));
  return report;
}

Result<ConcatReport> ConcatFiles(const Context& ctx, ObjectStore& store,
                                 std::vector<std::string> inputs, const std::string& output,
                                 const ConcatOptions& options, ArrowMemory& memory) {
  std::vector<StoredFile> files;
  for (std::string& key : inputs) files.push_back({.store = &store, .key = key, .name = key});
  return ConcatFiles(ctx, std::move(files), {.store = &store, .key = output, .name = output},
                     options, memory);
}

}  // namespace partforge::data
