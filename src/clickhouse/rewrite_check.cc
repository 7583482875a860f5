#include "clickhouse/rewrite_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

Status DoesNotAddUp(const Context& ctx, std::string_view check, std::string message,
                    std::string_view where) {
  ctx.metrics.Add("partforge_verification_failures_total", {{"check", std::string(check)}});
  return Status(Code::kCorruption, std::move(message))
      .Explain(
          2137, std::string(where),
          "nothing was published; compare the SELECT on this part by hand and report the numbers");
}

std::string HashOf(const std::vector<std::string>& columns) {
  std::vector<std::string> quoted;
  for (const std::string& column : columns) quoted.push_back(QuoteIdentifier(column));
  return fmt::format("SELECT count(), sum(cityHash64(toString(tuple({}))))",
                     fmt::join(quoted, ", "));
}

}  // namespace

Result<VerifyMode> ParseVerifyMode(std::string_view text) {
  if (text == "none") return VerifyMode::kNone;
  if (text == "counts") return VerifyMode::kCounts;
  if (text == "content") return VerifyMode::kContent;
  return Status(Code::kInvalidArgument,
                fmt::format("verify is none of none, counts, content: {}", text));
}

bool IsCollapsingEngine(std::string_view engine) {
  return engine != "MergeTree";
}

Status CheckConservation(const RowCounts& counts, std::string_view part) {
  const bool may_shrink = IsCollapsingEngine(counts.engine) || counts.is_ttl_applied;
  const bool inserts_ok = IsCollapsingEngine(counts.engine) ? counts.before_merge <= counts.written
                                                            : counts.before_merge == counts.written;
  const bool merges_ok =
      may_shrink ? counts.produced <= counts.before_merge : counts.produced == counts.before_merge;
  if (inserts_ok && merges_ok) return {};
  return Status(Code::kCorruption,
                fmt::format("{} rows written, {} in the table after the inserts, {} in the parts "
                            "to publish ({})",
                            counts.written, counts.before_merge, counts.produced, counts.engine))
      .Explain(2137, std::string(part),
               "nothing was published; run the part again with --tier=seed --verify=content and "
               "report the numbers");
}

Status CheckRanges(const Context& ctx, LocalTables& tables, const std::vector<RowRange>& ranges,
                   int64_t visible_rows) {
  int64_t covered = 0;
  for (const RowRange& range : ranges) {
    PF_ASSIGN(const int64_t rows, tables.CountRows(ctx, tables.source(),
                                                   ChunkFilter(tables.source().database,
                                                               tables.source().table, range)));
    covered += rows;
  }
  if (covered == visible_rows) return {};
  return DoesNotAddUp(ctx, "ranges",
                      fmt::format("the ranges cover {} rows of {}", covered, visible_rows),
                      tables.source().ToString());
}

Status CheckContent(const Context& ctx, Engine& engine, LocalTables& tables,
                    const ContentQuestion& question) {
  QueryOptions options;
  options.database = question.current_database;
  options.settings["optimize_use_projections"] = "0";
  if (question.memory_bytes_max > 0)
    options.settings["max_memory_usage"] = fmt::format("{}", question.memory_bytes_max);
  const std::string destination =
      QuoteTable(tables.destination().database, tables.destination().table);
  // The SELECT's values are converted by the INSERT; the same conversion happens in a table of the
  // destination's structure without keeping a row: the Null-engine twin is not needed, since CAST
  // to the destination's types does it.
  std::vector<std::string> casts;
  PF_ASSIGN(const QueryOutcome types,
            engine.Query(ctx,
                         fmt::format("SELECT name, type FROM system.columns WHERE database = {} "
                                     "AND table = {} ORDER BY position",
                                     QuoteString(tables.destination().database),
                                     QuoteString(tables.destination().table)),
                         {}));
  std::vector<std::pair<std::string, std::string>> typed;
  for (const auto& row : SplitTsv(types.text)) typed.emplace_back(row.at(0), row.at(1));
  std::vector<std::string> names;
  for (const std::string& column : question.insert_columns) {
    for (const auto& [name, type] : typed) {
      if (name != column) continue;
      names.push_back(fmt::format("pf_{}", names.size()));
      casts.push_back(fmt::format("CAST({}, {}) AS {}",
                                  QuoteIdentifier(fmt::format("c{}", names.size())),
                                  QuoteString(type), names.back()));
    }
  }
  if (names.size() != question.insert_columns.size()) {
    return Status(Code::kInternal, "the columns of the INSERT are not those of the destination");
  }
  std::vector<std::string> aliases;
  for (size_t i = 1; i <= names.size(); ++i) aliases.push_back(fmt::format("c{}", i));
  const std::string source_sql = fmt::format(
      "WITH pf_select ({0}) AS ({1}) SELECT count(), sum(cityHash64(toString(tuple({2})))) FROM "
      "(SELECT {3} FROM pf_select)",
      fmt::join(aliases, ", "), question.select, fmt::join(names, ", "), fmt::join(casts, ", "));
  PF_ASSIGN(const QueryOutcome expected, engine.Query(ctx, source_sql, options));
  PF_ASSIGN(
      const QueryOutcome found,
      engine.Query(ctx, fmt::format("{} FROM {}", HashOf(question.insert_columns), destination),
                   options));
  if (expected.text == found.text) return {};
  return DoesNotAddUp(ctx, "content",
                      fmt::format("count and hash of the SELECT are {}, of the destination {}",
                                  expected.text, found.text),
                      tables.destination().ToString());
}

Status CheckTable(const Context& ctx, Engine& engine, const TableName& table) {
  QueryOptions options;
  options.settings["check_query_single_value_result"] = "1";
  PF_ASSIGN(
      const QueryOutcome outcome,
      engine.Query(ctx, fmt::format("CHECK TABLE {}", QuoteTable(table.database, table.table)),
                   options));
  if (outcome.text == "1\n") return {};
  return DoesNotAddUp(ctx, "check_table", fmt::format("CHECK TABLE answered {}", outcome.text),
                      table.ToString());
}

}  // namespace partforge::clickhouse
