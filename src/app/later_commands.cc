#include "app/later_commands.h"

#include <algorithm>

namespace partforge::app {
namespace {

constexpr std::string_view
    kLook = "partforge list-jobs, partforge job-status, partforge events, or /metrics of a worker",
    kFinal = "nothing is to be done: finished parts are imported as they are",
    kNewJob = "a new job with another --job-id; partforge retry-failed makes failed parts again",
    kNone = "partforge help   lists what there is";

constexpr LaterCommand kCommands[] = {
    {"doctor", "partforge check for SQL, partforge config print for settings"},
    {"overview", kLook},
    {"watch", kLook},
    {"server", kLook},
    {"upload-backup", "restore the backup on a server, then partforge freeze"},
    {"finalize-compaction", kFinal},
    {"reset-compaction", kFinal},
    {"reset-compact-timer", kFinal},
    {"reset-job", kNewJob},
    {"set-part-state", kNewJob},
    {"delete-job", "rules of the bucket remove its objects; its rows stay"},
    {"delete-parts", "rules of the bucket remove their objects; their rows stay"},
    {"iceberg", kNone},
    {"paimon", kNone},
    {"loader", kNone},
    {"shell", kNone},
};

}  // namespace

std::span<const LaterCommand> LaterCommands() {
  return kCommands;
}

const LaterCommand* FindLaterCommand(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kCommands), std::end(kCommands),
                   [&](const LaterCommand& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

}  // namespace partforge::app
