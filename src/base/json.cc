#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace partforge {
namespace {

constexpr size_t kDepthMax = 64;

// Builds the document from the events of nlohmann's parser, which itself does not recurse: the
// depth is limited here, before anything that does (dump, comparison, our own readers) sees the
// document.
class Builder {
 public:
  using number_integer_t = JsonDoc::number_integer_t;
  using number_unsigned_t = JsonDoc::number_unsigned_t;
  using number_float_t = JsonDoc::number_float_t;
  using string_t = JsonDoc::string_t;
  using binary_t = JsonDoc::binary_t;

  // The events; `false` stops the parser.
  bool null() { return Add(nullptr) != nullptr; }
  bool boolean(bool value) { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) { return Add(value) != nullptr; }
  bool string(string_t& value) { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) { return Fail("binary value in a JSON text"); }
  bool start_object(size_t) { return Open(JsonDoc::object()); }
  bool start_array(size_t) { return Open(JsonDoc::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(string_t& name) {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second) return Fail(fmt::format("key stands twice: {}", name));
    level.key = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception&) {
    constexpr size_t kTokenBytesMax = 40;
    if (token.empty() || token == "<EOF>" || token[0] == '\0')
      return Fail(fmt::format("the text ends early, at byte {}", position));
    return Fail(
        fmt::format("syntax error at byte {}: {}", position, token.substr(0, kTokenBytesMax)));
  }

  const std::string& failure() const { return failure_; }
  JsonDoc Take() { return std::move(root_); }

 private:
  struct Level {
    JsonDoc* container = nullptr;  // stable: its parent does not grow while it is open
    std::string key;               // of the value that comes next
    std::unordered_set<std::string> keys;
  };

  // Puts a value where the parser stands and returns its place.
  JsonDoc* Add(JsonDoc value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.container->is_array()) {
      level.container->push_back(std::move(value));
      return &level.container->back();
    }
    // The object is a vector of pairs, and `keys` has excluded a second one: appending keeps large
    // objects linear.
    auto& object = level.container->get_ref<JsonDoc::object_t&>();
    static_cast<JsonDoc::object_t::Container&>(object).emplace_back(std::move(level.key),
                                                                    std::move(value));
    return &object.back().second;
  }

  bool Open(JsonDoc container) {
    if (levels_.size() == kDepthMax)
      return Fail(fmt::format("nested deeper than {} levels", kDepthMax));
    JsonDoc* const place = Add(std::move(container));
    levels_.push_back(Level{place, {}, {}});
    return true;
  }

  bool Close() {
    levels_.pop_back();
    return true;
  }

  bool Fail(std::string message) {
    failure_ = std::move(message);
    return false;
  }

  JsonDoc root_;
  std::vector<Level> levels_;
  std::string failure_;
};

std::string_view TypeName(const JsonDoc& value) {
  return value.type_name();
}

}  // namespace

Result<JsonDoc> ParseJson(std::string_view text) {
  Builder builder;
  bool is_good = false;
  try {
    is_good = JsonDoc::sax_parse(text.begin(), text.end(), &builder);
  } catch (const std::exception& error) {
    return Status(Code::kCorruption, fmt::format("read JSON: {}", error.what()));
  }
  if (!is_good) return Status(Code::kCorruption, fmt::format("read JSON: {}", builder.failure()));
  return builder.Take();
}

std::string DumpJson(const JsonDoc& doc) {
  return doc.dump(-1, ' ', false, JsonDoc::error_handler_t::replace);
}

std::string DumpJsonPretty(const JsonDoc& doc) {
  return doc.dump(2, ' ', false, JsonDoc::error_handler_t::replace);
}

JsonReader::JsonReader(const JsonDoc& doc, std::string_view what) : doc_(doc), what_(what) {}

Result<const JsonDoc*> JsonReader::Find(std::string_view field) {
  if (!doc_.is_object()) {
    return Status(Code::kCorruption,
                  fmt::format("{}: wants an object, found {}", what_, TypeName(doc_)));
  }
  const auto it = doc_.find(std::string(field));
  if (it == doc_.end())
    return Status(Code::kCorruption, fmt::format("{}: field is missing: {}", what_, field));
  if (std::find(seen_.begin(), seen_.end(), field) == seen_.end()) seen_.emplace_back(field);
  return &*it;
}

Status JsonReader::Wrong(std::string_view field, std::string_view expected) const {
  return Status(Code::kCorruption, fmt::format("{}: field {} wants {}, found {}", what_, field,
                                               expected, TypeName(doc_.at(std::string(field)))));
}

Result<std::string> JsonReader::String(std::string_view field) {
  PF_ASSIGN(const JsonDoc* value, Find(field));
  if (!value->is_string()) return Wrong(field, "a string");
  return value->get_ref<const std::string&>();
}

Result<int64_t> JsonReader::Int(std::string_view field) {
  PF_ASSIGN(const JsonDoc* value, Find(field));
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() ||
       value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) return Wrong(field, "a signed 64-bit integer");
  return value->get<int64_t>();
}

Result<uint64_t> JsonReader::Uint(std::string_view field) {
  PF_ASSIGN(const JsonDoc* value, Find(field));
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  // A document built in memory may hold a small number as a signed one.
  if (value->is_number_integer() && value->get<int64_t>() >= 0) return value->get<uint64_t>();
  return Wrong(field, "an unsigned 64-bit integer");
}

Result<double> JsonReader::Double(std::string_view field) {
  PF_ASSIGN(const JsonDoc* value, Find(field));
  if (!value->is_number()) return Wrong(field, "a number");
  return value->get<double>();
}

Result<bool> JsonReader::Bool(std::string_view field) {
  PF_ASSIGN(const JsonDoc* value, Find(field));
  if (!value->is_boolean()) return Wrong(field, "true or false");
  return value->get<bool>();
}

Result<const JsonDoc*> JsonReader::Object(std::string_view field) {
  PF_ASSIGN(const JsonDoc* value, Find(field));
  if (!value->is_object()) return Wrong(field, "an object");
  return value;
}

Result<const JsonDoc*> JsonReader::Array(std::string_view field) {
  PF_ASSIGN(const JsonDoc* value, Find(field));
  if (!value->is_array()) return Wrong(field, "an array");
  return value;
}

Result<std::vector<std::string>> JsonReader::Strings(std::string_view field) {
  PF_ASSIGN(const JsonDoc* array, Array(field));
  std::vector<std::string> strings;
  for (const JsonDoc& value : *array) {
    if (!value.is_string()) return Wrong(field, "an array of strings");
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

Result<std::string> JsonReader::StringOr(std::string_view field, std::string fallback) {
  if (!SeekValue(field)) return fallback;
  return String(field);
}

Result<int64_t> JsonReader::IntOr(std::string_view field, int64_t fallback) {
  if (!SeekValue(field)) return fallback;
  return Int(field);
}

Result<double> JsonReader::DoubleOr(std::string_view field, double fallback) {
  if (!SeekValue(field)) return fallback;
  return Double(field);
}

Result<bool> JsonReader::BoolOr(std::string_view field, bool fallback) {
  if (!SeekValue(field)) return fallback;
  return Bool(field);
}

bool JsonReader::Has(std::string_view field) const {
  if (!doc_.is_object()) return false;
  const auto it = doc_.find(std::string(field));
  return it != doc_.end() && !it->is_null();
}

bool JsonReader::SeekValue(std::string_view field) {
  return Find(field).ok() && Has(field);
}

Status JsonReader::Finish() const {
  if (!doc_.is_object()) {
    return Status(Code::kCorruption,
                  fmt::format("{}: wants an object, found {}", what_, TypeName(doc_)));
  }
  for (const auto& [field, value] : doc_.items()) {
    if (std::find(seen_.begin(), seen_.end(), field) == seen_.end()) {
      return Status(Code::kCorruption, fmt::format("{}: field is unknown: {}", what_, field));
    }
  }
  return {};
}

}  // namespace partforge
