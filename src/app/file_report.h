#pragma once

#include <string>

#include "app/output.h"
#include "base/json.h"
#include "data/file_inspect.h"

namespace partforge::app {

// What `partforge file inspect` prints. All pure.

// How much of a file the text shows; the document always shows all that was read.
enum class InspectView : uint8_t {
  kSummary,  // columns, and the first row groups
  kDetails,  // all row groups, and each of their columns
};
std::string InspectText(const data::FileReport& report, InspectView view, const OutputStyle& style);
JsonDoc InspectDocument(const data::FileReport& report);

}  // namespace partforge::app
