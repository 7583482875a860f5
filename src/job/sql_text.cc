#include "job/sql_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace partforge {
namespace {

// In the order the reader of rows expects them (job_rows.cc).
constexpr std::string_view kTaskColumns =
    "tasks.job_id, tasks.task_id, tasks.kind, tasks.task_no, tasks.size_bytes, "
    "tasks.source_job_id, "
    "tasks.source_task_id, tasks.state, tasks.epoch, tasks.winner, tasks.commit_id, "
    "tasks.superseded_by, tasks.generation, tasks.group_key, tasks.partition_id, tasks.parts_out, "
    "tasks.parts_peak, tasks.partitions_out, tasks.rows_out, tasks.bytes_out, tasks.attempts, "
    "tasks.crashes, tasks.not_before, tasks.ready_at, tasks.finalize_at, tasks.failure_class, "
    "tasks.failure_code, tasks.created_at, tasks.updated_at, tasks.started_at, tasks.payload";
constexpr std::string_view kTaskColumnsT =
    "t.job_id, t.task_id, t.kind, t.task_no, t.size_bytes, t.source_job_id, t.source_task_id, "
    "t.state, t.epoch, t.winner, t.commit_id, t.superseded_by, t.generation, t.group_key, "
    "t.partition_id, t.parts_out, t.parts_peak, t.partitions_out, t.rows_out, t.bytes_out, "
    "t.attempts, t.crashes, t.not_before, t.ready_at, t.finalize_at, t.failure_class, "
    "t.failure_code, t.created_at, t.updated_at, t.started_at, t.payload";

struct Macro {
  std::string_view name, sqlite, postgres;
};
constexpr std::array kMacros = {
    Macro{"{for_update}", "", "FOR UPDATE"},
    Macro{"{for_share}", "", "FOR SHARE"},
    Macro{"{skip_locked}", "", "FOR UPDATE SKIP LOCKED"},
    Macro{"{skip_locked_t}", "", "FOR UPDATE OF t SKIP LOCKED"},
    Macro{"{identity}", "INTEGER PRIMARY KEY AUTOINCREMENT",
          "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"},
    Macro{"{strict}", " STRICT", ""},
    Macro{"{bigint}", "INTEGER", "BIGINT"},
    Macro{"{double}", "REAL", "DOUBLE PRECISION"},
    // The ids of a JSON array :ids.
    Macro{"{ids}", "(SELECT value FROM json_each(:ids))",
          "(SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))"},
    Macro{"{task_columns}", kTaskColumns, kTaskColumns},
    Macro{"{task_columns_t}", kTaskColumnsT, kTaskColumnsT},
};

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || c == '_';
}
bool IsNamePart(char c) {
  return IsNameStart(c) || (c >= '0' && c <= '9');
}

}  // namespace

std::string ExpandMacros(std::string_view text, SqlDialect dialect) {
  std::string out;
  out.reserve(text.size() + 64);
  while (!text.empty()) {
    const size_t brace = text.find('{');
    out.append(text.substr(0, brace));
    if (brace == std::string_view::npos) break;
    text.remove_prefix(brace);
    const auto macro = std::find_if(kMacros.begin(), kMacros.end(), [text](const Macro& candidate) {
      return text.starts_with(candidate.name);
    });
    if (macro == kMacros.end()) {
      out.push_back('{');
      text.remove_prefix(1);
      continue;
    }
    out.append(dialect == SqlDialect::kSqlite ? macro->sqlite : macro->postgres);
    text.remove_prefix(macro->name.size());
  }
  return out;
}

PositionalSql ToPositional(std::string_view sql) {
  PositionalSql result;
  bool is_quoted = false;
  for (size_t i = 0; i < sql.size(); ++i) {
    const char c = sql[i];
    if (c == '\'') is_quoted = !is_quoted;
    const bool is_cast =
        c == ':' && ((i > 0 && sql[i - 1] == ':') || (i + 1 < sql.size() && sql[i + 1] == ':'));
    if (is_quoted || c != ':' || is_cast || i + 1 >= sql.size() || !IsNameStart(sql[i + 1])) {
      result.sql.push_back(c);
      continue;
    }
    size_t end = i + 1;
    while (end < sql.size() && IsNamePart(sql[end])) ++end;
    const std::string name(sql.substr(i + 1, end - i - 1));
    const auto known = std::find(result.names.begin(), result.names.end(), name);
    const auto position = known - result.names.begin();
    if (known == result.names.end()) result.names.push_back(name);
    result.sql += fmt::format("${}", position + 1);
    i = end - 1;
  }
  return result;
}

}  // namespace partforge
