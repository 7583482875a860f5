#pragma once

#include <span>
#include <string_view>

namespace partforge::app {

// A flag of the reference program (clickhouse-parts §8), or of a part of ours that is not there yet
// (user-experience §2, §3, §10), that this program does not have. Scripts
// written for that program go on working where leaving the flag out changes no result, and are told
// what to do where it would.
struct ReferenceFlag {
  // kAlways: what it asks for is always done; `--flag=false` is refused.
  enum class Fate { kIgnored, kRenamed, kRefused, kAlways };
  std::string_view name = "";
  Fate fate = Fate::kIgnored;
  bool is_switch = false;         // may stand without a value
  std::string_view text = "";     // why it is ignored; the new name; what to do instead
  std::string_view command = "";  // of this one only; empty = of all on jobs or their tables
  bool is_secret = false;         // its value is never shown
};

std::span<const ReferenceFlag> ReferenceFlags();
// Null when the reference program has no such flag, or this one has it too.
const ReferenceFlag* FindReferenceFlag(std::string_view name);

}  // namespace partforge::app
