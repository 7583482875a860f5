#pragma once

#include <string>
#include <string_view>

#include "app/output.h"
#include "base/json.h"
#include "data/file_concat.h"
#include "data/file_inspect.h"

namespace partforge::app {

// What `partforge file inspect` and `file concat` print. All pure.

// How much of a file the text shows; the document always shows all that was read.
enum class InspectView : uint8_t {
  kSummary,  // columns, and the first row groups
  kDetails,  // all row groups, and each of their columns
};
std::string InspectText(const data::FileReport& report, InspectView view, const OutputStyle& style);
JsonDoc InspectDocument(const data::FileReport& report);

// Whether a report tells what was done, or what would be.
enum class ConcatRun : uint8_t { kReal, kDry };
std::string ConcatText(const data::ConcatReport& report, std::string_view output, ConcatRun run,
                       const OutputStyle& style);
JsonDoc ConcatDocument(const data::ConcatReport& report, std::string_view output, ConcatRun run);

// A bound as a person reads it: dates and times in ISO form, decimals with their point, bytes that
// are no text as 0x…. `type` is that of the column ("timestamp(us, utc)", "decimal(9,2)").
std::string ScalarText(const data::Scalar& value, std::string_view type);
// The same as a value of JSON: text where a number would be rounded by readers, or is none.
JsonDoc ScalarJson(const data::Scalar& value, std::string_view type);

}  // namespace partforge::app
