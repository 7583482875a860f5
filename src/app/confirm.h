#pragma once

#include <string_view>

#include "app/command.h"

namespace partforge::app {

// Asks a person whether something that cannot be taken back shall be done: `question` is one
// sentence without its question mark. Only where stdin and stderr are terminals; --yes answers it
// (user-experience §1). kRefused (PF1017) on any answer but yes, and where nobody can be asked.
Status Confirm(const CommandInput& input, std::string_view question);

}  // namespace partforge::app
