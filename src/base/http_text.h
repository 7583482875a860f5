#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace partforge {

// The pieces of HTTP's text that client and server share. All pure.

// ASCII letters only, as header names are compared (RFC 9110 §5.1).
std::string LowerCase(std::string_view text);
// Without blanks, tabs and line ends on both sides.
std::string_view TrimBlanks(std::string_view text);
// Whether `text` can stand in a header without starting another: no CR, LF or NUL.
bool IsOneLine(std::string_view text);

// %XX decoded; text that is not well encoded is returned as it came.
std::string DecodePath(std::string_view text);
// "a=1&b=x+y" decoded and in order; '+' is a blank, a name without '=' has the value "".
std::vector<std::pair<std::string, std::string>> ParseQuery(std::string_view text);

}  // namespace partforge
