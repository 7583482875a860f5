#pragma once

#include "base/error.h"

namespace partforge::app {

// The one table of exits (user-experience §5.2). Pure; nothing else decides an exit.
// 0 done · 1 failed · 2 usage or settings · 3 refused · 4 partly done (PF2149) · 5 conflict or
// fenced · 6 in doubt · 7 unreachable · 8 damaged · 9 nothing to do (PF1016). A cancelled command
// ends with 128 + its signal.
int ExitCode(const Status& status);
int ExitCodeOfSignal(int signal_number);

}  // namespace partforge::app
