#pragma once

#include <string>
#include <string_view>

namespace partforge {

// From here on a signal that only a bug brings (SEGV, BUS, FPE, ILL, ABRT), and an exception that
// nobody catches, leave a file for whoever mends it and name it on stderr (PF9001,
// user-experience §5.1); then the signal does what it would have done. The file has mode 0600 and
// lies in TMPDIR or /tmp: signal, program, call stack; nothing that the program worked with. A
// stack that has run over leaves none: the handler has no other. Does nothing under a sanitizer,
// which tells more.
void ReportCrashes();

// The same file for an exception that reached main; its words stand in the file and nowhere else.
// Its path; empty when it could not be written.
std::string WriteCrashFile(std::string_view what);

}  // namespace partforge
