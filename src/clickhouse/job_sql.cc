#include "clickhouse/job_sql.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/failure_class.h"
#include "engine/clickhouse_codes.h"
#include "engine/sql_check.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

// Aggregates whose result is the same in whatever order values and states arrive. Every other one
// is taken for sensitive: `any` and `groupArray` keep an order, `argMax` the first of equal ones,
// `quantile` a sample, `groupUniqArray` shows the order of its hash table.
constexpr auto kOrderFreeFunctions = std::to_array<std::string_view>(
    {"count", "groupbitand", "groupbitmap", "groupbitor", "groupbitxor", "max", "maxmap",
     "maxmappedarrays", "min", "minmap", "minmappedarrays", "uniq", "uniqcombined",
     "uniqcombined64", "uniqexact", "uniqhll12"});
// The same of integers and decimals; sums of floats are rounded at each step.
constexpr auto kSums =
    std::to_array<std::string_view>({"avg", "sum", "summap", "summappedarrays", "sumwithoverflow"});
// Combinators that leave the order of values out of the result.
constexpr auto kOrderFreeCombinators = std::to_array<std::string_view>(
    {"array", "distinct", "if", "merge", "ordefault", "ornull", "state"});

constexpr int kUnfitInsert = 2105;

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string Describe(const SqlFinding& finding) {
  return fmt::format("{}: {} ({})", finding.place.ToString(), finding.construct, finding.why);
}

// Names that an expression mentions; none when it cannot be read.
std::set<std::string> NamesIn(std::string_view expression) {
  std::set<std::string> names;
  const auto tokens = TokenizeSql(expression);
  if (!tokens.ok()) return names;
  for (const SqlToken& token : *tokens) {
    if (!token.IsName()) continue;
    if (Result<std::string> name = TokenValue(token); name.ok())
      names.insert(std::move(name).value());
  }
  return names;
}

template <size_t n>
bool IsIn(const std::array<std::string_view, n>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// `function` in small letters, with combinators: "sumif".
bool IsOrderFree(std::string_view function, bool has_floats) {
  if (IsIn(kOrderFreeFunctions, function)) return true;
  if (IsIn(kSums, function)) return !has_floats;
  return std::any_of(
      kOrderFreeCombinators.begin(), kOrderFreeCombinators.end(), [&](std::string_view combinator) {
        return function.ends_with(combinator) &&
               IsOrderFree(function.substr(0, function.size() - combinator.size()), has_floats);
      });
}

// Whether merges of an AggregatingMergeTree give another value of this type (in small letters,
// without blanks) when its rows arrive in another order. What is no aggregate keeps its first
// value.
bool IsOrderSensitiveType(std::string_view type) {
  constexpr std::string_view kSimple = "simpleaggregatefunction(", kState = "aggregatefunction(";
  if (type.starts_with(kSimple)) {
    type.remove_prefix(kSimple.size());
  } else if (type.starts_with(kState)) {
    type.remove_prefix(kState.size());
  } else {
    return true;
  }
  // AggregateFunction(1, sumMap, …): the version of the state stands before the function.
  const size_t digits = type.find_first_not_of("0123456789");
  if (digits > 0 && digits != std::string_view::npos && type[digits] == ',')
    type.remove_prefix(digits + 1);
  const bool has_floats = type.find("float") != std::string_view::npos;
  return !IsOrderFree(type.substr(0, type.find_first_of(",()")), has_floats);
}

Status CheckNoExternalDefaults(const Context& ctx, Engine& local, std::string_view ddl,
                               std::string_view what, bool is_allowed) {
  if (is_allowed) return {};
  PF_ASSIGN(const std::vector<std::string> external, FindExternalFunctions(ctx, local, ddl));
  if (external.empty()) return {};
  return Status(Code::kRefused, fmt::format("{} calls {}", what, external.front()))
      .Explain(2115, std::string(what), "take it out, or give --allow-external-reads");
}

// A line break in a name cannot be told from the end of a line in what EXPLAIN answers.
Status CheckColumnNames(const CreateTable& table) {
  for (const ColumnDefinition& column : table.columns) {
    if (column.name.find('\n') == std::string::npos) continue;
    return Status(Code::kRefused, fmt::format("the name of a column holds a line break: {}",
                                              QuoteString(column.name)))
        .Explain(2104, table.name.ToString(), "ALTER TABLE … RENAME COLUMN, then freeze again");
  }
  return {};
}

// The statement itself, while the source has no rows: what the engine refuses now (a column too
// many, a type that does not convert) it would refuse for every part, after the upload. What reads
// elsewhere is not asked.
Status TryOnEmptyTables(const Context& ctx, Engine& local, const JobSqlRequest& request,
                        const SqlVerdict& sql, const std::string& database) {
  constexpr int64_t kAnswerMs = 60'000;
  const bool reads_elsewhere =
      request.allows_external_reads ||
      std::any_of(sql.findings.begin(), sql.findings.end(), [](const SqlFinding& finding) {
        return finding.kind == "other_table" || finding.kind == "table_function";
      });
  if (reads_elsewhere) return {};
  QueryOptions options;
  options.database = database;
  options.idle_timeout_ms = kAnswerMs;
  const Result<QueryOutcome> done = local.Query(ctx, request.insert_select, options);
  if (done.ok()) return {};
  const Status& tried = done.status();
  if (tried.code() == Code::kCancelled || tried.code() == Code::kUnavailable) return tried;
  // Of the values: there are none yet.
  if (FailureClassOf(tried) != FailureClass::kSql) return {};
  return Status(Code::kRefused, tried.message())
      .Explain(kUnfitInsert, "insert.sql",
               "correct the SELECT until it fits the destination's columns");
}

Status CheckDestinationName(const TableName& table) {
  constexpr int kBadName = 8006;
  for (const std::string& name : {table.database, table.table}) {
    if (Status checked = CheckIdentifier(name); !checked.ok()) {
      return std::move(checked)
          .As(Code::kRefused)
          .Explain(kBadName, "destination-schema-file", "give the destination a shorter name");
    }
  }
  return {};
}

}  // namespace

bool IsOrderSensitive(const CreateTable& destination) {
  // TTL … GROUP BY keeps any row's value of what it does not SET.
  const auto ttl = TokenizeSql(destination.ttl);
  const auto is_group = [](const SqlToken& token) { return token.IsWord("GROUP"); };
  if (!ttl.ok() || std::any_of(ttl->begin(), ttl->end(), is_group)) return true;
  if (destination.engine == "MergeTree") return false;
  // Replacing keeps the last of the rows with the highest version, which need not be one; rows of
  // equal sign and version collapse in turn; Coalescing keeps the last values, Summing the first of
  // what it does not sum.
  if (!destination.engine.starts_with("Aggregating")) return true;
  const std::set<std::string> key = NamesIn(destination.order_by);
  return std::any_of(
      destination.columns.begin(), destination.columns.end(), [&](const ColumnDefinition& column) {
        const bool is_stored = column.default_kind != "ALIAS" && column.default_kind != "EPHEMERAL";
        if (!is_stored || key.contains(column.name)) return false;
        std::string type = Lower(column.type);
        std::erase_if(type, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
        return IsOrderSensitiveType(type);
      });
}

std::string ChunkRefusalOf(const CreateTable& source) {
  const bool hides_offsets =
      std::any_of(source.columns.begin(), source.columns.end(),
                  [](const ColumnDefinition& column) { return column.name == "_part_offset"; });
  if (!hides_offsets) return "";
  return "the source has a column _part_offset, which hides the number of a row in its part";
}

Result<JobSqlVerdict> CheckJobSql(const Context& ctx, Engine& local, const JobSqlRequest& request) {
  const Status fits = CheckRewriteStatements(request.source_schema, request.destination_schema,
                                             request.insert_select);
  // Tokens see no source table where a construct hides it, e.g. merge(): the engine names that.
  if (!fits.ok() && fits.explanation().pf_number != kUnfitInsert) return fits;
  DdlOptions options;
  PF_ASSIGN(options.engine, ReadEngineNames(ctx, local));
  PF_ASSIGN(LocalDdl source, NormalizeSource(request.source_schema, options));
  PF_ASSIGN(LocalDdl destination, NormalizeDestination(request.destination_schema, options));
  PF_TRY(CheckDestinationName(destination.table.name));
  PF_TRY(CheckColumnNames(source.table));
  PF_TRY(CheckColumnNames(destination.table));
  PF_TRY(CheckNoExternalDefaults(ctx, local, source.sql, "the source's schema",
                                 request.allows_external_reads));
  PF_TRY(CheckNoExternalDefaults(ctx, local, destination.sql, "the destination's schema",
                                 request.allows_external_reads));

  JobSqlVerdict verdict;
  verdict.chunk_refusal = ChunkRefusalOf(source.table);
  verdict.is_chunk_safe = verdict.chunk_refusal.empty();
  verdict.source = source.table.name;
  verdict.destination = destination.table.name;
  for (const std::string& removal : source.removals)
    verdict.removals.push_back("source: " + removal);
  for (const std::string& removal : destination.removals)
    verdict.removals.push_back("destination: " + removal);
  verdict.is_order_sensitive = IsOrderSensitive(destination.table);

  // Both tables are made for real: what the engine refuses here it would refuse for every part.
  Result<LocalTables> tables =
      LocalTables::Create(ctx, local,
                          LocalTablesRequest{.source = std::move(source),
                                             .destination = std::move(destination),
                                             .compression_codec = request.compression_codec,
                                             .ttl = TtlPolicy::kKeep});
  if (!tables.ok()) {
    if (tables.status().code() != Code::kInvalidArgument) return std::move(tables).status();
    return Status(Code::kRefused, tables.status().message())
        .Explain(2104,
                 fmt::format("{} or {}", verdict.source.ToString(), verdict.destination.ToString()),
                 "correct the CREATE TABLE; the embedded engine must be able to make the table");
  }
  const auto check = [&]() -> Status {
    PF_ASSIGN(const SqlVerdict sql,
              CheckInsertSelect(
                  ctx, local, request.insert_select,
                  InsertSelectRules{
                      .source = {verdict.source.database, verdict.source.table},
                      .destination = {verdict.destination.database, verdict.destination.table},
                      .database = verdict.source.database,
                      .allows_external_reads = request.allows_external_reads}));
    for (const SqlFinding& finding : sql.findings) {
      if (finding.effect == SqlFinding::Effect::kRefused)
        return RefusalOf(sql, "insert.sql", Chunking::kOn);
      if (finding.effect == SqlFinding::Effect::kNotChunkable && verdict.is_chunk_safe) {
        verdict.is_chunk_safe = false;
        verdict.chunk_refusal = Describe(finding);
      }
    }
    PF_TRY(TryOnEmptyTables(ctx, local, request, sql, verdict.source.database));
    for (const std::string& warning : sql.Warnings()) verdict.warnings.push_back(warning);
    PF_ASSIGN(verdict.fingerprint, ComputeFingerprint(ctx, local, request.destination_schema));
    return {};
  };
  const Status status = check();
  Ignore(ctx, tables->Drop(ctx), "the next check drops them first");
  PF_TRY(status);
  PF_TRY(fits);
  return verdict;
}

}  // namespace partforge::clickhouse
