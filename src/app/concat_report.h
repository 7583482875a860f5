#pragma once

#include <string>
#include <string_view>

#include "app/output.h"
#include "base/json.h"
#include "data/file_concat.h"

namespace partforge::app {

// What `partforge file concat` prints. All pure.

// Whether a report tells what was done, or what would be.
enum class ConcatRun : uint8_t { kReal, kDry };
std::string ConcatText(const data::ConcatReport& report, std::string_view output, ConcatRun run,
                       const OutputStyle& style);
JsonDoc ConcatDocument(const data::ConcatReport& report, std::string_view output, ConcatRun run);

}  // namespace partforge::app
