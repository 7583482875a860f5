#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/option_groups.h"
#include "app/wire.h"
#include "clickhouse/job_sql.h"
#include "clickhouse/source_checks.h"

namespace partforge::app {
namespace {

Status Run(const CommandInput& input) {
  clickhouse::JobSqlRequest request;
  PF_ASSIGN(request.destination_schema, ReadTextFlag(input, "dest-schema"));
  PF_ASSIGN(request.insert_select, ReadTextFlag(input, "job-sql"));
  request.allows_external_reads = input.options.Bool("allow-external-reads");
  const bool names_table = input.options.IsSet("database") || input.options.IsSet("table");
  if (!input.options.String("source-schema").empty() && names_table) {
    return Status(Code::kInvalidArgument, "the source comes from a file or from the server")
        .Explain(1010, "--source-schema and --database, --table", "keep one of the two ways");
  }
  if (!input.options.String("source-schema").empty()) {
    PF_ASSIGN(request.source_schema, ReadTextFlag(input, "source-schema"));
  } else {
    if (input.options.String("database").empty() || input.options.String("table").empty()) {
      return Status(Code::kInvalidArgument, "the source table is not named")
          .Explain(1006, "check", "--source-schema=FILE, or --database and --table on a server");
    }
    PF_ASSIGN(const clickhouse::TableName table, TableFrom(input));
    PF_ASSIGN(const std::unique_ptr<Engine> server, OpenServer(input));
    PF_TRY(clickhouse::CheckSourceTable(input.ctx, *server, table, {}));
    PF_ASSIGN(request.source_schema, clickhouse::ReadCreateTable(input.ctx, *server, table));
  }
  PF_ASSIGN(const std::unique_ptr<ScratchEngine> local, ScratchEngine::Start(input));
  PF_ASSIGN(const clickhouse::JobSqlVerdict verdict,
            clickhouse::CheckJobSql(input.ctx, local->engine(), request));
  input.out.Line(
      fmt::format("ok       {} → {}", verdict.source.ToString(), verdict.destination.ToString()));
  input.out.Line(verdict.is_chunk_safe
                     ? std::string("chunks   allowed: the SELECT works row by row")
                     : fmt::format("chunks   not allowed (PF2114): {}", verdict.chunk_refusal));
  if (verdict.is_order_sensitive)
    input.out.Line("order    parts are imported in the order of the source's blocks (PF2112)");
  for (const std::string& removal : verdict.removals)
    input.out.Line(fmt::format("local    without {}", removal));
  for (const std::string& warning : verdict.warnings)
    input.out.Line(fmt::format("warning  {}", warning));
  input.out.Document("check", JsonDoc{{"source", verdict.source.ToString()},
                                      {"destination", verdict.destination.ToString()},
                                      {"schema_fingerprint", verdict.fingerprint.id},
                                      {"chunks_allowed", verdict.is_chunk_safe},
                                      {"chunk_refusal", verdict.chunk_refusal},
                                      {"order_sensitive", verdict.is_order_sensitive},
                                      {"removals", verdict.removals},
                                      {"warnings", verdict.warnings}});
  return {};
}

}  // namespace

Command CheckCommand() {
  return {
      {.name = "check",
       .purpose = "Says whether the SQL of a job is right, and what it allows; writes nothing.",
       .arguments = "",
       .arguments_min = 0,
       .arguments_max = 0,
       .examples =
           {"partforge check --job-sql=insert.sql --dest-schema=new.sql --source-schema=old.sql",
            "partforge check --job-sql=insert.sql --dest-schema=new.sql --database=shop "
            "--table=orders"},
       .options =
           Join({{{.name = "job-sql",
                   .help = "file with INSERT INTO destination SELECT … FROM source",
                   .is_required = true},
                  {.name = "dest-schema",
                   .help = "file with the CREATE TABLE of the destination",
                   .is_required = true},
                  {.name = "source-schema",
                   .help = "file with the CREATE TABLE of the source (default: ask the server)"},
                  {.name = "database", .help = "database of the source table"},
                  {.name = "table", .help = "source table"},
                  {.name = "allow-external-reads",
                   .type = OptionType::kBool,
                   .default_text = "false",
                   .help = "the SELECT may use url(), s3(), file() and the like"}},
                 ServerOptions(),
                 EngineOptions()}),
       .related = {"plan", "upload-freeze"}},
      Run};
}

}  // namespace partforge::app
