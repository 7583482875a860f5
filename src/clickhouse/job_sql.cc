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

constexpr std::array<std::string_view, 4> kOrderSensitiveFunctions = {
    "any(", "anylast(", "first_value(", "last_value("};

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

Status CheckNoExternalDefaults(const Context& ctx, Engine& local, std::string_view ddl,
                               std::string_view what, bool is_allowed) {
  if (is_allowed) return {};
  PF_ASSIGN(const std::vector<std::string> external, FindExternalFunctions(ctx, local, ddl));
  if (external.empty()) return {};
  return Status(Code::kRefused, fmt::format("{} calls {}", what, external.front()))
      .Explain(2115, std::string(what), "take it out, or give --allow-external-reads");
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
  const std::string& engine = destination.engine;
  if (engine == "MergeTree") return false;
  if (engine.starts_with("Replacing")) return destination.engine_args.empty();
  if (engine.starts_with("Collapsing")) return true;
  // Rows of equal key, version and sign: which of them is left depends on their order.
  if (engine.starts_with("VersionedCollapsing")) return true;
  if (engine.starts_with("Coalescing")) return true;  // the last value of a column wins
  if (engine.starts_with("Graphite")) return true;
  // Summing keeps the first value of columns that are not summed; Aggregating that of columns that
  // are neither aggregates nor of the key, and depends on its functions.
  if (engine.starts_with("Summing")) return true;
  const bool is_aggregating = engine.starts_with("Aggregating");
  const std::set<std::string> key = NamesIn(destination.order_by);
  for (const ColumnDefinition& column : destination.columns) {
    std::string type = Lower(column.type) + "(";
    std::erase_if(type, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
    const bool is_aggregate =
        type.starts_with("aggregatefunction(") || type.starts_with("simpleaggregatefunction(");
    if (is_aggregating && !is_aggregate && !key.contains(column.name)) return true;
    for (const std::string_view function : kOrderSensitiveFunctions) {
      const std::string name(function.substr(0, function.size() - 1));
      if (type.find("aggregatefunction(" + name) != std::string::npos) return true;
    }
  }
  return false;
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
  PF_TRY(CheckNoExternalDefaults(ctx, local, source.sql, "the source's schema",
                                 request.allows_external_reads));
  PF_TRY(CheckNoExternalDefaults(ctx, local, destination.sql, "the destination's schema",
                                 request.allows_external_reads));

  JobSqlVerdict verdict;
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
