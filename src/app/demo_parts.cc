#include "app/demo_parts.h"

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"
#include "clickhouse/local_tables.h"
#include "engine/http_engine.h"
#include "engine/sql_text.h"

namespace partforge::app {
namespace {

constexpr int64_t kStartTimeoutMs = 90'000, kStepTimeoutMs = 600'000;
constexpr std::string_view kKillPoint = "clickhouse.tar_uploaded";
constexpr int64_t kLeaseMs =
    1000;  // so that the second worker need not wait a minute for the killed one

struct Shape {
  std::string load, source_schema, destination_schema, insert_select, select, query, before, after;
};

// The year of New York: a part a month, in order of time.
Shape NewYork(const std::filesystem::path& data) {
  Shape shape;
  const std::string columns =
      "time_hour DateTime('UTC'), carrier String, flight UInt16, tailnum String, origin String, "
      "dest String, dep_delay Nullable(Int16), arr_delay Nullable(Int16), air_time "
      "Nullable(UInt16), distance UInt16";
  shape.source_schema =
      "CREATE TABLE demo.flights (" + columns +
      ") ENGINE = MergeTree PARTITION BY toYYYYMM(time_hour) ORDER BY (time_hour, carrier, flight)";
  shape.load = fmt::format(
      "INSERT INTO demo.flights SELECT time_hour, carrier, flight, ifNull(tailnum, ''), origin, "
      "dest, dep_delay, arr_delay, air_time, distance FROM file({}, Parquet)",
      QuoteString(data.string()));
  shape.destination_schema =
      "CREATE TABLE demo.flights_by_plane (tailnum LowCardinality(String), time_hour "
      "DateTime('UTC') CODEC(Delta, ZSTD(3)), carrier LowCardinality(String), flight UInt16, "
      "origin LowCardinality(String), dest LowCardinality(String), dep_delay Nullable(Int16), "
      "arr_delay Nullable(Int16), air_time Nullable(UInt16), distance UInt32)\nENGINE = MergeTree "
      "PARTITION BY origin ORDER BY (tailnum, time_hour)\n";
  shape.select =
      "SELECT tailnum, time_hour, carrier, flight, origin, dest, dep_delay, arr_delay, air_time, "
      "distance FROM demo.flights";
  shape.insert_select = "INSERT INTO demo.flights_by_plane " + shape.select + "\n";
  shape.query = "SELECT count(), avg(arr_delay) FROM {} WHERE tailnum = 'N328AA'";
  shape.before = "PARTITION BY month   ORDER BY (time_hour, carrier, flight)   LZ4";
  shape.after = "PARTITION BY origin  ORDER BY (tailnum, time_hour)   ZSTD(5), LowCardinality";
  return shape;
}

// Three million flights of 2001.
Shape ThreeMillion(const std::filesystem::path& data) {
  Shape shape;
  shape.source_schema =
      "CREATE TABLE demo.flights (date DateTime64(6, 'UTC'), delay Int64, distance Int64, origin "
      "String, destination String) ENGINE = MergeTree PARTITION BY toYYYYMM(date) ORDER BY date";
  shape.load = fmt::format(
      "INSERT INTO demo.flights SELECT date, delay, distance, origin, destination FROM file({}, "
      "Parquet)",
      QuoteString(data.string()));
  shape.destination_schema =
      "CREATE TABLE demo.flights_by_plane (origin LowCardinality(String), destination "
      "LowCardinality(String), date DateTime64(3, 'UTC') CODEC(Delta, ZSTD(3)), delay Int32, "
      "distance UInt16)\nENGINE = MergeTree PARTITION BY toYYYYMM(date) ORDER BY (origin, "
      "destination, date)\n";
  shape.select = "SELECT origin, destination, date, delay, distance FROM demo.flights";
  shape.insert_select = "INSERT INTO demo.flights_by_plane " + shape.select + "\n";
  shape.query = "SELECT count(), avg(delay) FROM {} WHERE origin = 'SEA'";
  shape.before = "PARTITION BY month   ORDER BY date   LZ4";
  shape.after =
      "PARTITION BY month   ORDER BY (origin, destination, date)   ZSTD(5), LowCardinality";
  return shape;
}

class Demo {
 public:
  Demo(const DemoRequest& request)
      : request_(request),
        shape_(request.is_real ? ThreeMillion(request.data) : NewYork(request.data)) {}

  Result<DemoResult> Run(const Context& ctx) {
    result_.before = shape_.before;
    result_.after = shape_.after;
    PF_TRY(StartServer(ctx));
    PF_TRY(Timed(result_.load_ms, [&] { return Load(ctx); }));
    PF_TRY(Timed(result_.upload_ms, [&] { return Upload(ctx); }));
    PF_TRY(Timed(result_.killed_ms, [&] { return RunKilledWorker(ctx); }));
    PF_TRY(Timed(result_.worker_ms, [&] { return RunWorkers(ctx); }));
    PF_TRY(Timed(result_.import_ms, [&] { return Import(ctx); }));
    PF_TRY(Timed(result_.compare_ms, [&] { return Compare(ctx); }));
    server_->Signal(SIGTERM);
    Ignore(ctx, EndOf(ctx), "the folder is removed all the same");
    return result_;
  }

 private:
  template <class Step>
  static Status Timed(int64_t& took_ms, Step step) {
    const int64_t started_ms = MonotonicMs();
    Status status = step();
    took_ms = MonotonicMs() - started_ms;
    return status;
  }

  Status EndOf(const Context& ctx) {
    PF_TRY(server_->Wait(ctx, 30'000));
    return {};
  }

  void Note(std::string_view text) const {
    if (request_.on_note) request_.on_note(text);
  }

  Status StartServer(const Context& ctx) {
    PF_TRY(MakeDirectories(request_.folder / "server"));
    PF_TRY(MakeDirectories(request_.folder / "objects" / "demo"));
    ProcessOptions options;
    options.argv = {
        SelfPath().string(), "engine", "--path=" + (request_.folder / "server").string(),
        "--engine-library=" + request_.library.library.string(), "--allow-external-reads"};
    options.inherits_environment = false;
    options.inherited_names = HarmlessVariables();
    options.environment["TZ"] = "UTC";
    options.stderr_path = request_.folder / "server.log";
    options.captures_stdout = true;
    PF_ASSIGN(server_, ChildProcess::Start(options));
    PF_ASSIGN(const std::optional<std::string> line, server_->ReadLine(ctx, kStartTimeoutMs));
    if (!line)
      return Status(Code::kUnavailable, "the demo's server ended before it was ready")
          .Explain(2142, "demo server", "partforge demo --keep keeps its log: server.log");
    PF_ASSIGN(const JsonDoc ready, ParseJson(*line));
    JsonReader reader(ready, "ready line");
    PF_ASSIGN(const int64_t port, reader.Int("port"));
    url_ = fmt::format("http://127.0.0.1:{}", port);
    PF_ASSIGN(engine_, HttpEngine::Open({.url = url_}));
    return {};
  }

  Status Query(const Context& ctx, std::string_view sql) {
    PF_TRY(engine_->Query(ctx, sql, {}));
    return {};
  }

  Status Load(const Context& ctx) {
    Note("loading real flights into a ClickHouse table …");
    PF_TRY(Query(ctx, "CREATE DATABASE IF NOT EXISTS demo"));
    PF_TRY(Query(ctx, shape_.source_schema));
    PF_TRY(Query(ctx, shape_.load));
    PF_TRY(Query(ctx, "OPTIMIZE TABLE demo.flights FINAL"));
    PF_TRY(Query(ctx, shape_.destination_schema));
    PF_TRY(WriteFileDurably(request_.folder / "new.sql", shape_.destination_schema));
    PF_TRY(WriteFileDurably(request_.folder / "insert.sql", shape_.insert_select));
    PF_ASSIGN(result_.source_rows,
              clickhouse::QueryInt(ctx, *engine_, "SELECT count() FROM demo.flights", {}));
    return {};
  }

  std::vector<std::string> Place() const {
    return {"--state-url=sqlite:" + (request_.folder / "state.db").string(),
            "--s3-endpoint=file://" + (request_.folder / "objects").string()};
  }
  std::vector<std::string> Scratch() const {
    return {"--work-dir=" + (request_.folder / "work").string(),
            "--engine-library=" + request_.library.library.string()};
  }

  // Runs this program as a child; its stdout must be one JSON document.
  struct Outcome {
    ExitState exit;
    std::string text;
  };
  Result<Outcome> RunSelf(const Context& ctx, std::vector<std::string> words,
                          std::initializer_list<std::vector<std::string>> more,
                          std::map<std::string, std::string> environment) {
    ProcessOptions options;
    options.argv = {SelfPath().string()};
    options.argv.insert(options.argv.end(), words.begin(), words.end());
    for (const auto& group : more)
      options.argv.insert(options.argv.end(), group.begin(), group.end());
    // The settings of this machine's real work are none of the demo's.
    const std::filesystem::path settings = request_.folder / "settings.json";
    PF_TRY(WriteFileDurably(settings, "{}\n"));
    options.inherits_environment = false;
    options.inherited_names = HarmlessVariables();
    options.environment = std::move(environment);
    options.environment["PARTFORGE_CONFIG"] = settings.string();
    options.stderr_path = request_.folder / "commands.log";
    options.captures_stdout = true;
    PF_ASSIGN(const std::unique_ptr<ChildProcess> child, ChildProcess::Start(options));
    Outcome outcome;
    while (true) {
      PF_ASSIGN(const std::optional<std::string> line, child->ReadLine(ctx, kStepTimeoutMs));
      if (!line) break;
      outcome.text += *line + "\n";
    }
    PF_ASSIGN(outcome.exit, child->Wait(ctx, kStepTimeoutMs));
    return outcome;
  }

  Status MustSucceed(const Outcome& outcome, std::string_view what) const {
    if (outcome.exit.exit_code == 0) return {};
    const Result<std::string> log = ReadFile(request_.folder / "commands.log");
    const std::string tail =
        log.ok() ? log->substr(log->size() > 2000 ? log->size() - 2000 : 0) : std::string();
    return Status(Code::kInternal,
                  fmt::format("{} ended with {}: {}", what, outcome.exit.ToString(), tail))
        .Explain(2150, "demo", "report it with this text");
  }

  Status Upload(const Context& ctx) {
    Note("freezing and uploading its parts …");
    PF_ASSIGN(const Outcome frozen, RunSelf(ctx,
                                            {"freeze", "--database=demo", "--table=flights",
                                             "--freeze=demo", "--clickhouse-url=" + url_},
                                            {}, {}));
    PF_TRY(MustSucceed(frozen, "freeze"));
    PF_ASSIGN(
        const Outcome outcome,
        RunSelf(ctx,
                {"upload-freeze", "--json", "--database=demo", "--table=flights", "--freeze=demo",
                 "--bucket=demo", "--job-id=demo", "--job-name=demo", "--clickhouse-url=" + url_,
                 "--destination-schema-file=" + (request_.folder / "new.sql").string(),
                 "--insert-select-file=" + (request_.folder / "insert.sql").string()},
                {Place(), Scratch()}, {}));
    PF_TRY(MustSucceed(outcome, "upload-freeze"));
    PF_ASSIGN(const JsonDoc doc, ParseJson(outcome.text));
    result_.source_parts = doc.value("parts", int64_t{0});
    return {};
  }

  Status RunKilledWorker(const Context& ctx) {
    Note("rewriting; the first worker is killed …");
    PF_ASSIGN(
        const Outcome outcome,
        RunSelf(ctx,
                {"worker", "--json", "--once", fmt::format("--lease-ttl={}ms", kLeaseMs),
                 "--parallel=1", "--metrics-addr="},
                {Place(), Scratch()}, {{"PARTFORGE_FAULT", fmt::format("{}:1:kill", kKillPoint)}}));
    result_.killed_at = kKillPoint;
    result_.was_killed = outcome.exit.signal_number == SIGKILL;
    return {};
  }

  Status RunWorkers(const Context& ctx) {
    const int64_t started_ms = MonotonicMs();
    while (true) {
      PF_ASSIGN(const Outcome outcome,
                RunSelf(ctx,
                        {"worker", "--json", "--drain", "--job-id=demo",
                         fmt::format("--lease-ttl={}ms", 60 * kLeaseMs), "--metrics-addr="},
                        {Place(), Scratch()}, {}));
      PF_TRY(MustSucceed(outcome, "worker"));
      PF_ASSIGN(const Outcome status,
                RunSelf(ctx, {"job-status", "--json", "--details", "--all", "--job-id=demo"},
                        {{Place().front()}}, {}));
      PF_TRY(MustSucceed(status, "job-status"));
      PF_ASSIGN(const JsonDoc doc, ParseJson(status.text));
      const std::string state = doc["summary"].value("status", "");
      if (state == "READY_FOR_IMPORT") {
        for (const JsonDoc& part : doc["parts"])
          result_.attempts_of_killed =
              std::max(result_.attempts_of_killed, part.value("attempts", int64_t{0}));
        return {};
      }
      if (state == "FAILED" || MonotonicMs() - started_ms > kStepTimeoutMs) {
        return Status(Code::kInternal, fmt::format("the job is {}: {}", state, status.text))
            .Explain(2150, "demo", "report it with this text");
      }
    }
  }

  Status Import(const Context& ctx) {
    Note("publishing …");
    PF_ASSIGN(const Outcome outcome,
              RunSelf(ctx,
                      {"import-finished", "--json", "--job-id=demo", "--database=demo",
                       "--table=flights_by_plane", "--clickhouse-url=" + url_},
                      {Place()}, {}));
    return MustSucceed(outcome, "import-finished");
  }

  Status Compare(const Context& ctx) {
    Note("comparing every row …");
    // The destination's types differ from the source's, so both sides are compared as text in the
    // destination's types.
    const std::string converted = "SELECT * FROM demo.converted";
    PF_TRY(Query(ctx, "CREATE TABLE demo.converted AS demo.flights_by_plane ENGINE = Memory"));
    PF_TRY(Query(ctx, "INSERT INTO demo.converted " + shape_.select));
    const std::string published = "SELECT * FROM demo.flights_by_plane";
    PF_ASSIGN(result_.destination_rows,
              clickhouse::QueryInt(ctx, *engine_, "SELECT count() FROM demo.flights_by_plane", {}));
    PF_ASSIGN(const int64_t missing,
              clickhouse::QueryInt(
                  ctx, *engine_,
                  fmt::format("SELECT count() FROM ({} EXCEPT ALL {})", converted, published), {}));
    PF_ASSIGN(const int64_t extra,
              clickhouse::QueryInt(
                  ctx, *engine_,
                  fmt::format("SELECT count() FROM ({} EXCEPT ALL {})", published, converted), {}));
    result_.rows_different = missing + extra;
    PF_ASSIGN(
        const QueryOutcome left,
        engine_->Query(
            ctx,
            fmt::format("SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM ({})", converted),
            {}));
    PF_ASSIGN(
        const QueryOutcome right,
        engine_->Query(
            ctx,
            fmt::format("SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM ({})", published),
            {}));
    result_.hashes_equal = left.text == right.text;
    PF_ASSIGN(result_.source_bytes, Bytes(ctx, "flights"));
    PF_ASSIGN(result_.destination_bytes, Bytes(ctx, "flights_by_plane"));
    PF_ASSIGN(result_.destination_parts,
              clickhouse::QueryInt(ctx, *engine_,
                                   "SELECT count() FROM system.parts WHERE database = 'demo' AND "
                                   "table = 'flights_by_plane' AND active",
                                   {}));
    result_.query = fmt::format(fmt::runtime(shape_.query), "flights");
    PF_ASSIGN(const QueryOutcome before,
              engine_->Query(ctx, fmt::format(fmt::runtime(shape_.query), "demo.flights"), {}));
    PF_ASSIGN(
        const QueryOutcome after,
        engine_->Query(ctx, fmt::format(fmt::runtime(shape_.query), "demo.flights_by_plane"), {}));
    result_.rows_read_before = before.read_rows;
    result_.rows_read_after = after.read_rows;
    return {};
  }

  Result<int64_t> Bytes(const Context& ctx, std::string_view table) {
    return clickhouse::QueryInt(ctx, *engine_,
                                fmt::format("SELECT sum(bytes_on_disk) FROM system.parts WHERE "
                                            "database = 'demo' AND table = '{}' AND active",
                                            table),
                                {});
  }

  const DemoRequest& request_;
  const Shape shape_;
  DemoResult result_;
  std::unique_ptr<ChildProcess> server_;
  std::unique_ptr<HttpEngine> engine_;
  std::string url_;
};

}  // namespace

Result<DemoResult> RunDemoParts(const Context& ctx, const DemoRequest& request) {
  return Demo(request).Run(ctx);
}

std::filesystem::path SelfFolder() {
  return SelfPath().parent_path();
}

}  // namespace partforge::app
