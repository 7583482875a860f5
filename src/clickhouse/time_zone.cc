#include "clickhouse/time_zone.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace partforge::clickhouse {
namespace {

// Names of one zone; images of servers differ in which they set.
constexpr std::array kUtcNames = {"UTC",  "Etc/UTC",  "UCT",     "Etc/UCT", "Universal",
                                  "Zulu", "Etc/Zulu", "Etc/GMT", "GMT",     "Etc/Universal"};

bool IsUtc(std::string_view zone) {
  return std::find(kUtcNames.begin(), kUtcNames.end(), zone) != kUtcNames.end();
}

}  // namespace

bool IsSameTimeZone(std::string_view a, std::string_view b) {
  return a == b || (IsUtc(a) && IsUtc(b));
}

Result<std::string> ReadTimeZone(const Context& ctx, Engine& engine) {
  PF_ASSIGN(const QueryOutcome answer,
            engine.Query(ctx, "SELECT timezone() FORMAT TabSeparatedRaw", {}));
  std::string zone = answer.text.substr(0, answer.text.find('\n'));
  if (zone.empty()) return Status(Code::kCorruption, "the server names no time zone");
  return zone;
}

Status CheckTimeZone(const Context& ctx, Engine& engine, const RewriteJobSpec& job,
                     const TableName& table) {
  PF_ASSIGN(const std::string zone, ReadTimeZone(ctx, engine));
  if (IsSameTimeZone(zone, job.timezone)) return {};
  return Status(Code::kRefused, fmt::format("parts were made in time zone {}, the server has {}",
                                            job.timezone, zone))
      .Explain(2121, table.ToString(),
               fmt::format("import on a server whose timezone is {}, or run a new job from one "
                           "whose timezone is {}",
                           job.timezone, zone));
}

}  // namespace partforge::clickhouse
