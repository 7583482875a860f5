#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "data/scalar.h"

namespace partforge::app {

// A bound as a person reads it: dates and times in ISO form, decimals with their point, bytes that
// are no text as 0x…. `type` is that of the column ("timestamp(us, utc)", "decimal(9,2)").
std::string ScalarText(const data::Scalar& value, std::string_view type);
// The same as a value of JSON: text where a number would be rounded by readers, or is none.
JsonDoc ScalarJson(const data::Scalar& value, std::string_view type);

}  // namespace partforge::app
