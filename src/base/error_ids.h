#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace partforge {

// One row of base/error_ids.def.
struct ErrorId {
  int number = 0;
  std::string_view title;      // one plain sentence, lower case
  std::string_view paragraph;  // what `explain` prints
};

// All codes, ascending by number.
std::span<const ErrorId> ErrorIds();
// Null when no such code exists.
const ErrorId* FindErrorId(int number);
// "PF2107".
std::string ErrorIdText(int number);

}  // namespace partforge
