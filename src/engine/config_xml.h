#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace partforge {

// The little of XML that ClickHouse configuration files use: elements and text. No DTD, no entities
// but the five of XML and character references. Pure.

// Leaves of a document below its root, as dotted path → text without outer white space, in document
// order; an element that stands twice has two entries. kCorruption with the byte offset on
// malformed text, above 16 MiB, 64 levels or 1,000,000 elements.
using XmlLeaves = std::vector<std::pair<std::string, std::string>>;
Result<XmlLeaves> ReadXmlLeaves(std::string_view xml);

// The document <clickhouse>…</clickhouse> with these leaves. Dots in keys nest. kInvalidArgument on
// a key that is no dotted path of XML names; values may be any text without NUL.
Result<std::string> WriteClickHouseXml(const std::map<std::string, std::string>& leaves);

std::string EscapeConfigXml(std::string_view text);

}  // namespace partforge
