#include "base/error_ids.h"

#include <algorithm>
#include <array>
#include <string>

namespace partforge {
namespace {

constexpr ErrorId kErrorIds[] = {
#define PF_ERROR(number, title, paragraph) {number, title, paragraph},
#include "base/error_ids.def"
#undef PF_ERROR
};

}  // namespace

std::span<const ErrorId> ErrorIds() {
  return kErrorIds;
}

const ErrorId* FindErrorId(int number) {
  const auto* found =
      std::lower_bound(std::begin(kErrorIds), std::end(kErrorIds), number,
                       [](const ErrorId& id, int wanted) { return id.number < wanted; });
  return found != std::end(kErrorIds) && found->number == number ? found : nullptr;
}

std::string ErrorIdText(int number) {
  return "PF" + std::to_string(number);
}

}  // namespace partforge
