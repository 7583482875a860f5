#include <fmt/format.h>

#include <algorithm>

#include "clickhouse/fingerprint.h"
#include "engine/clickhouse_codes.h"

namespace partforge::clickhouse {
namespace {

constexpr int kUnknownTable = 60;

// The answer's lines, sorted. A server that lacks the system table gives none: then nothing is
// checked against it.
Result<std::vector<std::string>> Names(const Context& ctx, Engine& engine, std::string_view sql) {
  Result<QueryOutcome> outcome = engine.Query(ctx, fmt::format("{} FORMAT TSVRaw", sql), {});
  if (!outcome.ok()) {
    if (ClickHouseNumber(outcome.status()) == kUnknownTable) return std::vector<std::string>();
    return std::move(outcome).status();
  }
  std::vector<std::string> names;
  for (std::string_view rest = outcome->text; !rest.empty();) {
    const size_t end = rest.find('\n');
    if (end != 0) names.emplace_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

Result<EngineNames> ReadEngineNames(const Context& ctx, Engine& engine) {
  EngineNames names;
  PF_ASSIGN(names.merge_tree_settings,
            Names(ctx, engine, "SELECT name FROM system.merge_tree_settings"));
  PF_ASSIGN(names.codecs, Names(ctx, engine, "SELECT name FROM system.codecs"));
  // Type families too: CAST(x AS Array(Int8)) looks like a call of Array.
  PF_ASSIGN(names.functions,
            Names(ctx, engine,
                  "SELECT arrayJoin([name, lower(name)]) FROM system.functions UNION ALL "
                  "SELECT arrayJoin([name, lower(name)]) FROM system.data_type_families"));
  PF_ASSIGN(names.index_types,
            Names(ctx, engine, "SELECT name FROM system.data_skipping_index_types"));
  return names;
}

}  // namespace partforge::clickhouse
