#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge {

// JSON documents keep the order of their keys. Only .cc files include <nlohmann/json.hpp>.
using JsonDoc = nlohmann::ordered_json;

// Parses exactly one document, UTF-8, at most 64 levels deep. kCorruption with the byte offset
// otherwise. A key that stands twice in one object is kCorruption too.
Result<JsonDoc> ParseJson(std::string_view text);
std::string DumpJson(const JsonDoc& doc);        // one line
std::string DumpJsonPretty(const JsonDoc& doc);  // two-space indent, no final newline

// Reads an object of our own strictly: a missing field, a wrong type or (at Finish) an unknown
// field is kCorruption naming `what` and the field. Refers to `doc`, which must outlive it.
class JsonReader {
 public:
  JsonReader(const JsonDoc& doc, std::string_view what);

  Result<std::string> String(std::string_view field);
  Result<int64_t> Int(std::string_view field);
  Result<uint64_t> Uint(std::string_view field);
  Result<double> Double(std::string_view field);
  Result<bool> Bool(std::string_view field);
  Result<const JsonDoc*> Object(std::string_view field);
  Result<const JsonDoc*> Array(std::string_view field);
  Result<std::vector<std::string>> Strings(std::string_view field);

  // The value, or the fallback when the field is absent (or null). Wrong type is still kCorruption.
  Result<std::string> StringOr(std::string_view field, std::string fallback);
  Result<int64_t> IntOr(std::string_view field, int64_t fallback);
  Result<double> DoubleOr(std::string_view field, double fallback);
  Result<bool> BoolOr(std::string_view field, bool fallback);
  bool Has(std::string_view field) const;

  // kCorruption when the object has a field nobody asked for. Not called for foreign JSON.
  Status Finish() const;

 private:
  Result<const JsonDoc*> Find(std::string_view field);
  // Has(field), and counts the field as asked for: a null one is known too.
  bool SeekValue(std::string_view field);
  Status Wrong(std::string_view field, std::string_view expected) const;

  const JsonDoc& doc_;
  std::string what_;
  std::vector<std::string> seen_;
};

}  // namespace partforge
