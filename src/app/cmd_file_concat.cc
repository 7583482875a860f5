#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands.h"
#include "app/concat_report.h"
#include "app/file_places.h"
#include "app/option_groups.h"

namespace partforge::app {
namespace {

constexpr int kFilesMax = 100'000;
constexpr int kNoOneSchema = 8009;
constexpr int64_t kRowGroupBytesMin = int64_t{1} << 10;
constexpr int64_t kRowGroupBytesMax = int64_t{1} << 30;  // some readers hold sizes in 32 bits

Status WrongValue(std::string_view flag, std::string why, std::string_view example) {
  return Status(Code::kInvalidArgument, std::move(why))
      .Explain(1005, fmt::format("--{}", flag), fmt::format("--{}={}", flag, example));
}

Result<data::ConcatOptions> OptionsFrom(const ResolvedOptions& options) {
  data::ConcatOptions concat;
  concat.row_group_bytes = options.SizeBytes("row-group-bytes");
  if (concat.row_group_bytes < kRowGroupBytesMin || concat.row_group_bytes > kRowGroupBytesMax) {
    return WrongValue(
        "row-group-bytes",
        fmt::format("a row group must have 1 KiB to 1 GiB: {}", options.String("row-group-bytes")),
        "128MiB");
  }
  if (const std::string codec = options.String("codec"); codec != "keep") {
    concat.codec = data::ParquetCodecOf(codec);
    if (!concat.codec) {
      return WrongValue(
          "codec", fmt::format("none of keep, none, snappy, gzip, brotli, lz4, zstd: {}", codec),
          "zstd");
    }
  }
  if (options.IsSet("codec-level")) {
    const int64_t level = options.Int("codec-level");
    if (!concat.codec) {
      return Status(Code::kInvalidArgument, "a level without a codec")
          .Explain(1010, "--codec-level", "--codec=zstd --codec-level=9");
    }
    const auto range = data::LevelsOf(*concat.codec);
    if (!range) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} has no levels: {}", options.String("codec"), level))
          .Explain(1010, "--codec-level", "leave out --codec-level, or --codec=zstd");
    }
    if (level < range->first || level > range->second) {
      return WrongValue("codec-level",
                        fmt::format("a level of {} is {} to {}: {}", options.String("codec"),
                                    range->first, range->second, level),
                        std::to_string(range->second));
    }
    concat.codec_level = static_cast<int>(level);
  }
  concat.decodes_always = options.Bool("decode");
  concat.is_dry_run = options.Bool("dry-run");
  const auto verify = data::VerifyModeOf(options.String("verify"));
  if (!verify) {
    return WrongValue(
        "verify", fmt::format("none of none, sample, full: {}", options.String("verify")), "full");
  }
  concat.verify = *verify;
  concat.overwrites = options.Bool("overwrite");
  return concat;
}

Status ExplainConcat(Status status, const std::string& output, const Context& ctx) {
  // A guard held: nothing was done (user-experience §5.2).
  if (status.code() == Code::kAlreadyExists || status.explanation().pf_number == kNoOneSchema) {
    return std::move(status).As(Code::kRefused);
  }
  if (status.explanation().pf_number != 0) return status;
  switch (status.code()) {
    case Code::kRefused:
      return std::move(status).Explain(8008, output, "leave the file out that the message names");
    case Code::kInvalidArgument:
      return std::move(status)
          .Explain(kNoOneSchema, output,
                   "join only files of one schema; partforge file inspect FILE   shows it")
          .As(Code::kRefused);
    case Code::kCorruption:
      return std::move(status).Explain(
          8007, output,
          "nothing was written; compare the file that the message names with where it came from");
    case Code::kExhausted:
      return std::move(status).Explain(7017, output,
                                       fmt::format("more memory: --memory={}MiB, or smaller row "
                                                   "groups: --row-group-bytes=32MiB",
                                                   2 * (ctx.memory.limit_bytes() >> 20) + 1));
    default:
      return status;
  }
}

Result<data::ConcatReport> Concat(const CommandInput& input, const Context& ctx) {
  PF_ASSIGN(const data::ConcatOptions options, OptionsFrom(input.options));
  FilePlaces places(input);
  const std::vector<std::string>& names = input.options.arguments();
  PF_ASSIGN(const data::StoredFile output, places.Output(ctx, names[0]));
  std::vector<data::StoredFile> files;
  for (size_t i = 1; i < names.size(); ++i) {
    PF_ASSIGN(data::StoredFile file, places.Input(ctx, names[i]));
    files.push_back(std::move(file));
  }
  data::ArrowMemory memory(ctx.memory);
  if (input.options.Bool("fail-if-empty")) {
    data::ConcatOptions look = options;
    look.is_dry_run = true;
    auto plan = data::ConcatFiles(ctx, files, output, look, memory);
    if (!plan.ok()) return ExplainConcat(plan.status(), names[0], ctx);
    if (plan->rows_in == 0) {
      return Status(Code::kNotFound, "the files have no row")
          .Explain(1016, names[0], "nothing to do");
    }
  }
  auto report = data::ConcatFiles(ctx, std::move(files), output, options, memory);
  if (!options.is_dry_run) {
    places.Tidy(ctx, output, report.ok() ? Status() : report.status());
  }
  if (!report.ok()) return ExplainConcat(report.status(), names[0], ctx);
  return report;
}

Status Run(const CommandInput& input) {
  const int64_t memory_bytes = input.options.SizeBytes("memory");
  std::optional<MemoryBudget> budget;
  if (memory_bytes > 0) budget.emplace(memory_bytes);
  const Context& outer = input.ctx;
  const Context ctx{outer.clock, outer.random,  outer.faults,
                    outer.log,   outer.metrics, budget ? *budget : outer.memory,
                    outer.stop};
  PF_ASSIGN(const data::ConcatReport report, Concat(input, ctx));
  const ConcatRun run = input.options.Bool("dry-run") ? ConcatRun::kDry : ConcatRun::kReal;
  const std::string& output = input.options.arguments().front();
  input.out.Text(ConcatText(report, output, run, input.out.style()));
  input.out.Document("file-concat", ConcatDocument(report, output, run));
  return {};
}

}  // namespace

Command FileConcatCommand() {
  return {
      {.name = "file concat",
       .purpose =
           "Joins Parquet files of one schema into one: row groups are copied as bytes, small "
           "ones joined page by page, nothing is decoded that need not be.",
       .arguments = "OUT IN…",
       .arguments_min = 2,
       .arguments_max = kFilesMax,
       .examples = {"partforge file concat day.parquet hour-*.parquet",
                    "partforge file concat s3://lake/all.parquet s3://lake/a.parquet b.parquet "
                    "--codec=zstd"},
       .options = Join(
           {{{.name = "overwrite",
              .type = OptionType::kBool,
              .default_text = "false",
              .help = "replace OUT, when the new file has been read back"},
             {.name = "codec",
              .default_text = "keep",
              .help = "keep, none, snappy, gzip, brotli, lz4 or zstd; pages with another one are "
                      "recompressed, not decoded"},
             {.name = "codec-level",
              .type = OptionType::kInt,
              .help =
                  "level of the codec: gzip 1–9, brotli 0–11, lz4 1–12, zstd 1–22 (default: its "
                  "own)"},
             {.name = "decode",
              .type = OptionType::kBool,
              .default_text = "false",
              .help = "decode and encode every row, for a comparison"},
             DryRunOption("say how each row group would be joined; write nothing"),
             {.name = "verify",
              .default_text = "sample",
              .help = "none, sample (a page of each column of every 64 row groups) or full (every "
                      "page and row): decode the new file and compare it with the inputs",
              .no_text = "none"},
             {.name = "row-group-bytes",
              .type = OptionType::kSize,
              .default_text = "128MiB",
              .help = "row groups smaller than an eighth of it are joined up to it",
              .group = "Limits"},
             {.name = "memory",
              .type = OptionType::kSize,
              .help = "memory for buffers (default: half of what may be used)",
              .group = "Limits"}},
            StoreOptions()}),
       .related = {"file inspect"}},
      Run};
}

}  // namespace partforge::app
