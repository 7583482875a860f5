#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace partforge::app {

// What a crash leaves behind (user-experience §5.1): PF9001 on stderr with the name of a file that
// holds what a developer needs: version, command, signal or exception, call stack. No arguments and
// no environment: they may hold secrets.

// From now on a fatal signal (SEGV, BUS, FPE, ILL, ABRT) and an exception that nobody caught write
// that file before the process ends as it would have. Once a process, before its threads. Does
// nothing where a sanitizer reports such ends itself. `command` must outlive the process.
void InstallCrashReports(std::string_view command);

// The same for an exception that was caught at the last moment: kInternal PF9001 with the file.
Status ReportException(std::string_view command, std::string_view what);

}  // namespace partforge::app
