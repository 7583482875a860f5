#include "clickhouse/rewrite_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

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

// "a\tb\n" → "a b".
std::string OneLine(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

std::string ColumnList(const std::vector<std::string>& columns) {
  std::vector<std::string> quoted;
  quoted.reserve(columns.size());
  for (const std::string& column : columns) quoted.push_back(QuoteIdentifier(column));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

// Of an INSERT: its list of columns with brackets ("" = none), and those whose values are compared.
struct InsertColumns {
  std::string list;
  std::vector<std::string> compared;
};

// The table's own columns, as the engine has them: a Nested column is several, and what the list
// says may be an expression, as in (* EXCEPT (a)), or an EPHEMERAL column, which nobody can read.
Result<InsertColumns> ReadInsertColumns(const Context& ctx, Engine& engine, const TableName& table,
                                        const std::vector<std::string>& listed) {
  PF_ASSIGN(const QueryOutcome found,
            engine.Query(ctx,
                         fmt::format("SELECT name, default_kind FROM system.columns WHERE database "
                                     "= {} AND table = {} ORDER BY position",
                                     QuoteString(table.database), QuoteString(table.table)),
                         {}));
  std::set<std::string> stored, ephemeral;
  InsertColumns columns;
  for (const std::vector<std::string>& row : SplitTsv(found.text)) {
    const std::string &name = row.at(0), &kind = row.at(1);
    if (kind == "EPHEMERAL") ephemeral.insert(name);
    if (kind == "EPHEMERAL" || kind == "MATERIALIZED" || kind == "ALIAS") continue;
    stored.insert(name);
    columns.compared.push_back(name);
  }
  if (listed.empty()) return columns;
  std::vector<std::string> entries, named;
  bool are_all_names = true;
  for (const std::string& entry : listed) {
    const bool is_stored = stored.contains(entry), is_name = is_stored || ephemeral.contains(entry);
    entries.push_back(is_name ? QuoteIdentifier(entry) : entry);
    if (is_stored) named.push_back(entry);
    are_all_names = are_all_names && is_name;
  }
  columns.list = fmt::format("({})", fmt::join(entries, ", "));
  if (are_all_names) columns.compared = std::move(named);
  return columns;
}

// Count and order-free hash of all rows of a table. The text of a value is hashed, since the hash
// function does not take every type.
std::string HashColumns(const std::vector<std::string>& columns) {
  return fmt::format("count() AS c, sum(cityHash64(toString(tuple({})))) AS h",
                     ColumnList(columns));
}

// The destination's structure without its data: rows inserted there pass the INSERT's own
// conversions and defaults, are hashed by a view, and are gone.
class ContentTwin {
 public:
  ContentTwin(Engine& engine, const TableName& destination)
      : engine_(engine),
        rows_(TableBeside(destination, "__partforge_twin").ToSql()),
        sums_(TableBeside(destination, "__partforge_sums").ToSql()),
        destination_(QuoteTable(destination.database, destination.table)) {}

  // "<count>\t<hash>\n" of what the SELECT would insert.
  Result<std::string> Hash(const Context& ctx, const InsertColumns& columns,
                           std::string_view select, const QueryOptions& options) {
    Result<std::string> hash = Measure(ctx, columns, select, options);
    const Status dropped = Drop(ctx);
    if (hash.ok()) PF_TRY(dropped);
    return hash;
  }

 private:
  Result<std::string> Measure(const Context& ctx, const InsertColumns& columns,
                              std::string_view select, const QueryOptions& options) {
    PF_TRY(Drop(ctx));
    PF_TRY(engine_.Query(
        ctx, fmt::format("CREATE TABLE {} AS {} ENGINE = Null", rows_, destination_), {}));
    PF_TRY(engine_.Query(ctx,
                         fmt::format("CREATE MATERIALIZED VIEW {} ENGINE = Memory AS SELECT {} "
                                     "FROM {}",
                                     sums_, HashColumns(columns.compared), rows_),
                         {}));
    PF_TRY(engine_.Query(ctx, fmt::format("INSERT INTO {} {} {}", rows_, columns.list, select),
                         options));
    PF_ASSIGN(const QueryOutcome sums,
              engine_.Query(ctx, fmt::format("SELECT sum(c), sum(h) FROM {}", sums_), {}));
    return sums.text;
  }

  Status Drop(const Context& ctx) {
    PF_TRY(engine_.Query(ctx, fmt::format("DROP TABLE IF EXISTS {} SYNC", sums_), {}));
    PF_TRY(engine_.Query(ctx, fmt::format("DROP TABLE IF EXISTS {} SYNC", rows_), {}));
    return {};
  }

  Engine& engine_;
  const std::string rows_, sums_, destination_;
};

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

Result<ContentAnswer> CheckContent(const Context& ctx, Engine& engine, LocalTables& tables,
                                   const ContentQuestion& question) {
  QueryOptions options;
  options.database = question.current_database;
  options.settings["optimize_use_projections"] = "0";
  if (question.memory_bytes_max > 0)
    options.settings["max_memory_usage"] = fmt::format("{}", question.memory_bytes_max);
  const std::string destination =
      QuoteTable(tables.destination().database, tables.destination().table);
  PF_ASSIGN(const InsertColumns columns,
            ReadInsertColumns(ctx, engine, tables.destination(), question.insert_columns));
  PF_ASSIGN(const QueryOutcome found,
            engine.Query(
                ctx, fmt::format("SELECT {} FROM {}", HashColumns(columns.compared), destination),
                options));
  ContentTwin twin(engine, tables.destination());
  PF_ASSIGN(const std::string expected, twin.Hash(ctx, columns, question.select, options));
  if (expected == found.text) return ContentAnswer::kEqual;
  // now(), rand() and the like: only the counts can be compared then.
  PF_ASSIGN(const std::string again, twin.Hash(ctx, columns, question.select, options));
  const auto count_of = [](std::string_view text) { return text.substr(0, text.find('\t')); };
  if (again != expected && count_of(expected) == count_of(found.text) &&
      count_of(again) == count_of(found.text)) {
    ctx.log.Warn("content not compared: the SELECT gives other values each time",
                 {{"table", tables.destination().ToString()}});
    return ContentAnswer::kNotComparable;
  }
  return DoesNotAddUp(ctx, "content",
                      fmt::format("count and hash of the SELECT are {}, of the destination {}",
                                  OneLine(expected), OneLine(found.text)),
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
