#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge {

// One element of a small XML document. Attributes are skipped, namespace prefixes cut off.
struct XmlElement {
  std::string name;
  std::string text;  // its own character data, joined; entities resolved
  std::vector<XmlElement> children;

  // First child of that name; null when there is none.
  const XmlElement* Child(std::string_view child_name) const;
  // Text of that child, "" when there is none.
  std::string_view ChildText(std::string_view child_name) const;
};

struct XmlLimits {
  size_t size_bytes_max = 32 << 20;
  int depth_max = 16;
  int64_t elements_max = 200'000;
};

// Reads the answers of S3 and STS: elements, character data, CDATA, comments, the five entities and
// character references. A document type is refused, so nothing can expand. kCorruption with the
// byte offset.
Result<XmlElement> ParseXml(std::string_view text, const XmlLimits& limits = {});

// Escapes `text` for use as character data.
std::string EscapeXml(std::string_view text);

}  // namespace partforge
