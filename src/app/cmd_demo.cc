#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/demo_parts.h"
#include "app/option_groups.h"
#include "app/version.h"
#include "app/wire.h"
#include "base/files.h"
#include "base/units.h"
#include "job/run_folder.h"

namespace partforge::app {
namespace {

constexpr std::string_view kTick = "✓", kCross = "✗";

std::string_view Mark(const CommandInput& input, bool is_good) {
  if (!input.out.style().is_utf8) return is_good ? "ok" : "FAIL";
  return is_good ? kTick : kCross;
}

Result<std::filesystem::path> FindData(const CommandInput& input) {
  if (const std::string own = input.options.String("data"); !own.empty())
    return std::filesystem::path(own);
  const std::string name =
      input.options.Bool("real") ? "flights-3m.parquet" : "flights-2013.parquet";
  const std::filesystem::path bin = SelfFolder();
  std::error_code error;
  for (const std::filesystem::path& folder : {bin.parent_path() / "share" / "partforge" / "demo",
                                              DepsFolder(input.environment) / "data"}) {
    if (std::filesystem::exists(folder / name, error)) return folder / name;
  }
  return Status(Code::kNotFound, fmt::format("{} is not beside the program", name))
      .Explain(1013, "demo data",
               "scripts/setup fetches it; --data=FILE uses another Parquet file");
}

Status Run(const CommandInput& input) {
  const std::string part =
      input.options.arguments().empty() ? "parts" : input.options.arguments().front();
  if (part != "parts") {
    return Status(Code::kRefused,
                  fmt::format("this version demonstrates the rewrite of ClickHouse parts, not {}",
                              part))
        .Explain(1005, "demo", "partforge demo");
  }
  PF_ASSIGN(const std::filesystem::path data, FindData(input));
  PF_ASSIGN(const std::filesystem::path work_dir, OpenWorkDir(input));
  // A run folder: what a killed demo leaves is removed by the next one, or by gc --delete.
  PF_ASSIGN(const std::unique_ptr<RunFolder> folder, RunFolder::Open(input.ctx, work_dir));
  std::filesystem::path place = folder->path();
  if (input.options.Bool("keep")) {
    place = work_dir / ("demo-" + RandomHex(input.ctx.random, 4));
    PF_TRY(MakeDirectories(place));
  }
  DemoRequest request;
  request.folder = place;
  request.data = data;
  request.is_real = input.options.Bool("real");
  request.is_own_data = !input.options.String("data").empty();
  PF_ASSIGN(request.library, ChooseEngine(input, 1));
  request.on_note = [&](std::string_view text) { input.out.Note(text); };
  const int64_t started_ms = MonotonicMs();
  const Result<DemoResult> result = RunDemoParts(input.ctx, request);
  Context unstopped = input.ctx;
  unstopped.stop = {};
  if (!input.options.Bool("keep"))
    Ignore(unstopped, folder->Remove(unstopped), "the next demo sweeps it");
  if (!result.ok()) return result.status();
  const DemoResult& demo = *result;
  const int64_t took_ms = MonotonicMs() - started_ms;

  input.out.Line(
      fmt::format("PartForge {} · demo on real data: {} flights · everything stays on this machine",
                  kVersion, FormatCount(demo.source_rows)));
  input.out.Line();
  input.out.Line(fmt::format(
      "ClickHouse table   {} parts frozen → rewritten off the server → attached as {} parts",
      demo.source_parts, demo.destination_parts));
  input.out.Line(fmt::format("  before   {}", demo.before));
  input.out.Line(fmt::format("  after    {}", demo.after));
  input.out.Line(fmt::format("  rows     {} = {} {}", FormatCount(demo.source_rows),
                             FormatCount(demo.destination_rows),
                             Mark(input, demo.source_rows == demo.destination_rows)));
  input.out.Line(fmt::format("  content  every row compared, {} differ {}",
                             FormatCount(demo.rows_different),
                             Mark(input, demo.rows_different == 0 && demo.hashes_equal)));
  input.out.Line(
      fmt::format("  killed   one worker with SIGKILL at {}: taken over, no row twice {}",
                  demo.killed_at, Mark(input, demo.was_killed && demo.attempts_of_killed > 1)));
  input.out.Line(fmt::format("  bytes    {} → {}", FormatBytes(demo.source_bytes),
                             FormatBytes(demo.destination_bytes)));
  input.out.Line(fmt::format("  query    {}: {} rows read before, {} after", demo.query,
                             FormatCount(demo.rows_read_before),
                             FormatCount(demo.rows_read_after)));
  input.out.Line(fmt::format(
      "  time     {} (load {}, upload {}, killed worker {}, worker {}, import {}, compare {})",
      FormatDurationMs(took_ms), FormatDurationMs(demo.load_ms), FormatDurationMs(demo.upload_ms),
      FormatDurationMs(demo.killed_ms), FormatDurationMs(demo.worker_ms),
      FormatDurationMs(demo.import_ms), FormatDurationMs(demo.compare_ms)));
  input.out.Line();
  if (input.options.Bool("keep")) {
    input.out.Line(fmt::format("Look inside   {}   (state.db, objects/, server/)", place.string()));
  } else {
    input.out.Line(
        "On your own table   partforge rewrite --help        Look inside   partforge demo --keep");
  }
  input.out.Document(
      "demo", JsonDoc{{"source_rows", demo.source_rows},
                      {"destination_rows", demo.destination_rows},
                      {"rows_different", demo.rows_different},
                      {"hashes_equal", demo.hashes_equal},
                      {"source_parts", demo.source_parts},
                      {"destination_parts", demo.destination_parts},
                      {"source_bytes", demo.source_bytes},
                      {"destination_bytes", demo.destination_bytes},
                      {"killed_at", demo.killed_at},
                      {"was_killed", demo.was_killed},
                      {"attempts_of_killed", demo.attempts_of_killed},
                      {"seconds", static_cast<double>(took_ms) / 1000.0},
                      {"folder", input.options.Bool("keep") ? place.string() : std::string()}});
  const bool is_good = demo.source_rows == demo.destination_rows && demo.rows_different == 0 &&
                       demo.hashes_equal && demo.was_killed && demo.attempts_of_killed > 1;
  if (!is_good)
    return Status(Code::kCorruption, "the rewritten table is not what it must be")
        .Explain(2150, "demo", "report it with the output of partforge demo --keep -v");
  return {};
}

}  // namespace

Command DemoCommand() {
  return {{.name = "demo",
           .purpose = "Rewrites a table of real flights on this machine, kills a worker on the "
                      "way, compares every row.",
           .arguments = "[parts]",
           .arguments_min = 0,
           .arguments_max = 1,
           .examples = {"partforge demo", "partforge demo --real --keep"},
           .options = Join({{{.name = "keep",
                              .type = OptionType::kBool,
                              .default_text = "false",
                              .help = "leave the folder and print its path"},
                             {.name = "real",
                              .type = OptionType::kBool,
                              .default_text = "false",
                              .help = "three million flights instead of one year of New York"},
                             {.name = "data",
                              .help = "another Parquet file with the columns of the shipped one"}},
                            EngineOptions()}),
           .related = {"rewrite"}},
          Run};
}

}  // namespace partforge::app
