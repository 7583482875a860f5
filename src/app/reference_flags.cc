#include "app/reference_flags.h"

#include <algorithm>

namespace partforge::app {
namespace {

using Fate = ReferenceFlag::Fate;

constexpr std::string_view kOwnClient = "PartForge has its own client of object stores",
                           kNoCompaction =
                               "compaction of finished parts is not part of this version",
                           kNoScraping = "the memory of the engine is read from its process",
                           kTwoFiles =
                               "not part of this version: give --destination-schema-file and "
                               "--insert-select-file";

constexpr ReferenceFlag kFlags[] = {
    {"s5cmd-binary", Fate::kIgnored, false, kOwnClient},
    {"s5cmd-numworkers", Fate::kIgnored, false, kOwnClient},
    {"aws-region", Fate::kIgnored, false,
     "it was for tokens of the database; --s3-region names the region of the object store"},
    {"clickhouse-prometheus-port", Fate::kIgnored, false, kNoScraping},
    {"clickhouse-prometheus-path", Fate::kIgnored, false, kNoScraping},
    {"clickhouse-prometheus-scrape-timeout", Fate::kIgnored, false, kNoScraping},
    {"compact", Fate::kIgnored, true, kNoCompaction},
    {"compact-window", Fate::kIgnored, false, kNoCompaction},
    {"compact-max-artifacts", Fate::kIgnored, false, kNoCompaction},
    {"compact-max-bytes", Fate::kIgnored, false, kNoCompaction},
    {"compact-max-parts-to-merge", Fate::kIgnored, false, kNoCompaction},
    {"compact-optimize-final-after", Fate::kIgnored, false, kNoCompaction},
    {"compact-merge-idle-timeout", Fate::kIgnored, false, kNoCompaction},
    {"compact-merge-max-runtime", Fate::kIgnored, false, kNoCompaction},
    {"work-dir", Fate::kIgnored, false,
     "parts are built and checked in the folder of the table they are for", "import-finished"},
    {"prefetch", Fate::kIgnored, false, "a worker fetches source parts ahead by itself"},
    {"checkpoint-chunks", Fate::kIgnored, false, "chunks are not checkpointed in this version"},
    {"resume", Fate::kIgnored, true, "the same --job-id again goes on by itself"},
    {"shutdown-grace-period", Fate::kRenamed, false, "shutdown-grace"},
    {"state-table", Fate::kRefused, false,
     "jobs are kept in several tables of one schema: give --state-schema"},
    {"postgres-iam-auth", Fate::kRefused, true,
     "tokens for PostgreSQL are not part of this version: give --postgres-url-file with a "
     "password"},
    {"copy-sql-from-job", Fate::kRefused, false, kTwoFiles},
    {"copy-parts-from-job", Fate::kRefused, false,
     "not part of this version: upload again, with another --job-id"},
    {"clickhouse-config-file", Fate::kRefused, false,
     "PartForge writes the configuration of its engine itself: leave the flag out"},
    {"allow-unverified", Fate::kRefused, true,
     "artifacts without a description are never imported: rewrite the parts in a new job"},
};

}  // namespace

std::span<const ReferenceFlag> ReferenceFlags() {
  return kFlags;
}

const ReferenceFlag* FindReferenceFlag(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kFlags), std::end(kFlags),
                   [&](const ReferenceFlag& flag) { return flag.name == name; });
  return found == std::end(kFlags) ? nullptr : found;
}

}  // namespace partforge::app
