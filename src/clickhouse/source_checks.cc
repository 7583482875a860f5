#include "clickhouse/source_checks.h"

#include <fmt/format.h>

#include "clickhouse/local_tables.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kPollMs = 500;
// 390: since 26.x SHOW CREATE TABLE answers so for a table that does not exist.
constexpr int kUnknownTable = 60, kUnknownDatabase = 81, kNoCreateTable = 390;

std::string Sql(const TableName& table) {
  return QuoteTable(table.database, table.table);
}

std::string Where(const TableName& table) {
  return fmt::format("database = {} AND table = {}", QuoteString(table.database),
                     QuoteString(table.table));
}

// Patch parts that some part of their partition has not taken in yet. An applied one stays active
// until the server's cleanup, minutes later; by then every part has a later data version.
Result<int64_t> PatchParts(const Context& ctx, Engine& engine, const TableName& table) {
  return QueryInt(
      ctx, engine,
      fmt::format(
          "SELECT count() FROM (SELECT replaceRegexpOne(partition_id, '^patch-[0-9a-f]+-', '') AS "
          "patched, data_version FROM system.parts WHERE {0} AND active AND startsWith(name, "
          "'patch-')) AS patches INNER JOIN (SELECT partition_id, min(data_version) AS oldest FROM "
          "system.parts WHERE {0} AND active AND NOT startsWith(name, 'patch-') GROUP BY "
          "partition_id) AS regular ON patches.patched = regular.partition_id WHERE "
          "patches.data_version > regular.oldest",
          Where(table)),
      {});
}

Result<int64_t> OpenMutations(const Context& ctx, Engine& engine, const TableName& table) {
  return QueryInt(
      ctx, engine,
      fmt::format("SELECT count() FROM system.mutations WHERE {} AND NOT is_done", Where(table)),
      {});
}

Status ApplyPatches(const Context& ctx, Engine& engine, const TableName& table) {
  QueryOptions options;
  options.settings["mutations_sync"] = "1";
  PF_TRY(engine.Query(ctx, fmt::format("ALTER TABLE {} APPLY PATCHES", Sql(table)), options));
  return {};
}

}  // namespace

Status CheckSourceTable(const Context& ctx, Engine& engine, const TableName& table,
                        const SourceCheckOptions& options) {
  PF_ASSIGN(
      const QueryOutcome found,
      engine.Query(ctx,
                   fmt::format("SELECT engine FROM system.tables WHERE database = {} AND name = {}",
                               QuoteString(table.database), QuoteString(table.table)),
                   {}));
  const auto rows = SplitTsv(found.text);
  if (rows.empty()) {
    return Status(Code::kNotFound, "the server has no such table")
        .Explain(2101, table.ToString(), "check --database, --table and --clickhouse-url");
  }
  if (!rows[0].at(0).ends_with("MergeTree")) {
    return Status(Code::kRefused, fmt::format("its engine is {}", rows[0].at(0)))
        .Explain(2101, table.ToString(), "name a table of the MergeTree family");
  }
  PF_ASSIGN(int64_t patches, PatchParts(ctx, engine, table));
  if (patches > 0 && options.applies_patches && options.foreseen != nullptr) {
    options.foreseen->emplace_back("PF2107 patch parts are applied before the freeze");
    patches = 0;
  } else if (patches > 0 && options.applies_patches) {
    PF_TRY(ApplyPatches(ctx, engine, table));
    PF_ASSIGN(patches, PatchParts(ctx, engine, table));
  }
  if (patches > 0) {
    return Status(Code::kRefused,
                  fmt::format("{} patch parts are not applied; a freeze copies parts without them",
                              patches))
        .Explain(2107, table.ToString(),
                 fmt::format("ALTER TABLE {} APPLY PATCHES   then freeze again\nor run  partforge "
                             "freeze --apply-patches",
                             Sql(table)));
  }
  const int64_t started_ms = MonotonicMs();
  while (true) {
    PF_ASSIGN(const int64_t open, OpenMutations(ctx, engine, table));
    if (open == 0) return {};
    if (options.foreseen != nullptr && options.wait_mutations_ms > 0) {
      options.foreseen->emplace_back(
          "PF2108 unfinished mutations are waited for before the freeze");
      return {};
    }
    if (MonotonicMs() - started_ms >= options.wait_mutations_ms) {
      return Status(Code::kRefused,
                    fmt::format("{} mutations are not done (system.mutations)", open))
          .Explain(2108, table.ToString(),
                   "wait for them with --wait-mutations=30m, or KILL MUTATION");
    }
    ctx.clock.SleepMs(kPollMs, ctx.stop);
    PF_TRY(ctx.CheckStop("waiting for mutations"));
  }
}

Result<std::string> ReadCreateTable(const Context& ctx, Engine& engine, const TableName& table) {
  Result<QueryOutcome> outcome =
      engine.Query(ctx, fmt::format("SHOW CREATE TABLE {} FORMAT TSVRaw", Sql(table)), {});
  if (!outcome.ok()) {
    const int number = ClickHouseNumber(outcome.status());
    if (number != kUnknownTable && number != kUnknownDatabase && number != kNoCreateTable)
      return std::move(outcome).status();
    return Status(Code::kNotFound, outcome.status().message())
        .Explain(2101, table.ToString(), "check --database, --table and --clickhouse-url");
  }
  std::string text = outcome->text;
  const size_t first = text.find_first_not_of(" \t\r\n");
  const size_t last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

}  // namespace partforge::clickhouse
