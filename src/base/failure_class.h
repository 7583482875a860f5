#pragma once

#include <cstdint>
#include <string_view>

namespace partforge {

// Why a work item failed and what follows from it (clickhouse-parts §15, "Class decides"; column
// `failure_class`).
enum class FailureClass : uint8_t {
  kResource,   // memory, threads: smaller, then again
  kTransient,  // a backend did not answer: the same again, with back-off
  kSql,        // the statement is wrong and will always fail
  kData,       // the rows or the files are wrong: no automatic retry
  kDisk,       // no space: release, take something smaller
  kEnv,        // this machine, its set-up or its rights
  kDoubt,      // it may have taken effect: look for evidence
  kConflict,   // the target moved on and the work does not fit any more: plan anew
  kCrash,     // its worker vanished while it had the item together with others: any may be to blame
  kPoison,    // the item keeps killing its worker or its engine
  kInternal,  // a bug of ours, or of the engine
};
std::string_view FailureClassName(FailureClass failure_class);  // "resource", "transient", …

}  // namespace partforge
