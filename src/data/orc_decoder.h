#pragma once

#include <string_view>

namespace partforge::data {

// The library that reads ORC trusts the lengths inside a file: a damaged one can end the process
// that reads it. So ORC is read in a process of its own, which this program starts from its own
// file with this one word; the channel that is its stdin carries what orc_wire.h says. It opens no
// file: the bytes it asks for come from the parent.
inline constexpr std::string_view kOrcDecoderWord = "decode-orc";

// What that process does: serves one file until the parent closes the channel. Returns the exit
// code. Every main() of a program that reads ORC calls it when its only argument is the word above.
int RunOrcDecoder();

}  // namespace partforge::data
