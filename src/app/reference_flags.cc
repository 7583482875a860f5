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

constexpr std::string_view kOwnEngine =
    "a worker starts an engine of its own: --clickhouse-binary names "
    "another program for it";

constexpr ReferenceFlag kFlags[] = {
    {"s5cmd-binary", Fate::kIgnored, false, kOwnClient},
    {"s5cmd-numworkers", Fate::kRenamed, false, "upload-files"},
    {"clickhouse-url", Fate::kIgnored, false, kOwnEngine, "worker"},
    {"clickhouse-user", Fate::kIgnored, false, kOwnEngine, "worker"},
    {"clickhouse-password", Fate::kIgnored, false, kOwnEngine, "worker", true},
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
    {"resume", Fate::kAlways, true,
     "an import always goes on where an earlier run ended: leave the flag out", "import-finished"},
    {"validate", Fate::kAlways, true,
     "the SQL is always tried in the engine before anything is uploaded: leave the flag out",
     "upload-freeze"},
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
    {"ignore-columns", Fate::kRefused, false,
     "parts of another shape are never attached: a new job with the target's schema makes them",
     "import-finished"},
    {"i-know-this-duplicates", Fate::kRefused, true,
     "a part that is published is never made again: upload it in a new job", "retry-failed"},
    {"allow-other-tables", Fate::kRefused, true,
     "workers have the source table only: join on the server after the import"},
    {"udf-path", Fate::kRefused, false,
     "functions of users are not part of this version: write the expression into the SELECT"},
    {"encryption-config", Fate::kRefused, false,
     "encrypted disks and codecs are not part of this version: decrypt the table first"},
    {"timezone", Fate::kRefused, false, "times are read and printed in UTC"},
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
