#pragma once

#include <string>

#include "base/json.h"

namespace partforge::app {

// A result document as CSV (RFC 4180, LF, UTF-8; user-experience §4.1): the objects of its list
// of parts, objects, jobs, artifacts, files or events, else of its first list of objects, are the
// rows, and a document without one is one row. Columns are the fields in the order in which they
// first appear; fields of objects within have dotted names; lists are JSON text; null is empty.
// Numbers are as in JSON. An empty list of those named gives no line: it has no columns. Pure.
std::string RenderCsv(const JsonDoc& document);

}  // namespace partforge::app
