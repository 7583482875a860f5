#include "data/parquet_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

// Members of LogicalType and ConvertedType of parquet.thrift.
namespace logical {
constexpr int16_t kString = 1, kEnum = 4, kDecimal = 5, kDate = 6, kTime = 7, kTimestamp = 8,
                  kInteger = 10, kJson = 12, kBson = 13, kUuid = 14;
constexpr int16_t kIntegerIsSigned = 2;
}  // namespace logical
namespace converted {
constexpr int64_t kUtf8 = 0, kEnum = 4, kDecimal = 5, kUint8 = 11, kUint16 = 12, kUint32 = 13,
                  kUint64 = 14, kJson = 19, kBson = 20;
}  // namespace converted

const std::string& NameOf(const ThriftValue& element) {
  return element.Find(schema_element::kName)->AsBinary();  // SchemaLeaves checked it
}

// Old writers say only the converted type, new ones both.
bool SameLogicalType(const ThriftValue& a, const ThriftValue& b) {
  const ThriftValue* logical_a = a.Find(schema_element::kLogicalType);
  const ThriftValue* logical_b = b.Find(schema_element::kLogicalType);
  if (logical_a != nullptr && logical_b != nullptr) return *logical_a == *logical_b;
  const int64_t converted_a = IntField(a, schema_element::kConvertedType, -1);
  const int64_t converted_b = IntField(b, schema_element::kConvertedType, -1);
  return converted_a == converted_b &&
         (converted_a >= 0 || (logical_a == nullptr && logical_b == nullptr));
}

bool SameElement(const ThriftValue& a, const ThriftValue& b, MatchBy match) {
  for (const int16_t id :
       {schema_element::kType, schema_element::kTypeLength, schema_element::kRepetition,
        schema_element::kScale, schema_element::kPrecision}) {
    // A length means something for fixed values only; some writers store 0.
    if (IntField(a, id, 0) != IntField(b, id, 0)) return false;
    if (id == schema_element::kType && (a.Find(id) == nullptr) != (b.Find(id) == nullptr)) {
      return false;
    }
  }
  if (!SameLogicalType(a, b)) return false;
  const int64_t id_a = IntField(a, schema_element::kFieldId, -1);
  const int64_t id_b = IntField(b, schema_element::kFieldId, -1);
  return id_a == id_b || (match == MatchBy::kName && (id_a < 0 || id_b < 0));
}

constexpr int64_t kRepeated = 2;

// The schema list as a tree. Names and child counts were checked by SchemaLeaves.
struct SchemaNode {
  const ThriftValue* element = nullptr;
  std::vector<SchemaNode> children = {};
  int first_leaf = 0;
  bool is_leaf() const { return children.empty() && element->Find(schema_element::kType); }
  int leaf_count() const {
    if (is_leaf()) return 1;
    int count = 0;
    for (const SchemaNode& child : children) count += child.leaf_count();
    return count;
  }
};

SchemaNode BuildTree(const ParquetSchema& schema, size_t& next, int& leaf) {
  SchemaNode node{.element = &schema[next++]};
  node.first_leaf = leaf;
  const int64_t count = IntField(*node.element, schema_element::kNumChildren, 0);
  for (int64_t i = 0; i < count; ++i) node.children.push_back(BuildTree(schema, next, leaf));
  if (node.is_leaf()) ++leaf;
  return node;
}

class LeafMatcher {
 public:
  explicit LeafMatcher(MatchBy match) : match_(match) {}

  // False when the groups differ; the path is in difference().
  bool Match(const SchemaNode& file, const SchemaNode& target, bool is_root,
             const std::string& path) {
    if (!is_root && !SameElement(*file.element, *target.element, match_)) return Differ(path);
    if (file.is_leaf() != target.is_leaf()) return Differ(path);
    if (target.is_leaf()) {
      leaves_.push_back(file.first_leaf);
      return true;
    }
    // What stands below a repeated node has its place, not its name: list elements and map entries
    // are called differently by each writer.
    const auto is_repeated = [](const SchemaNode& node) {
      return IntField(*node.element, schema_element::kRepetition, 0) == kRepeated;
    };
    const bool by_place = !is_root && (target.children.size() == 1 || is_repeated(target)) &&
                          (is_repeated(target) || is_repeated(target.children[0]));
    if (by_place && file.children.size() != target.children.size()) return Differ(path);
    std::vector<bool> is_used(file.children.size(), false);
    for (size_t i = 0; i < target.children.size(); ++i) {
      const SchemaNode& child = target.children[i];
      const std::string child_path =
          path.empty() ? NameOf(*child.element) : path + "." + NameOf(*child.element);
      const SchemaNode* found = by_place ? &file.children[i] : Find(file, child, is_used);
      if (found != nullptr) {
        if (!Match(*found, child, false, child_path)) return false;
      } else if (is_root && child.is_leaf() && !is_repeated(child)) {
        leaves_.push_back(-1);
      } else {
        return Differ(child_path);
      }
    }
    return true;
  }

  const std::string& difference() const { return difference_; }
  std::vector<int> TakeLeaves() { return std::move(leaves_); }

 private:
  bool Differ(const std::string& path) {
    difference_ = path;
    return false;
  }
  // By id where ids count and the target has one, else by name. Of several that are called the same
  // each is found once.
  const SchemaNode* Find(const SchemaNode& group, const SchemaNode& wanted,
                         std::vector<bool>& is_used) const {
    const int64_t id = IntField(*wanted.element, schema_element::kFieldId, -1);
    for (size_t i = 0; i < group.children.size(); ++i) {
      const ThriftValue& element = *group.children[i].element;
      const bool is_it = match_ == MatchBy::kFieldId && id >= 0
                             ? IntField(element, schema_element::kFieldId, -1) == id
                             : NameOf(element) == NameOf(*wanted.element);
      if (!is_it || is_used[i]) continue;
      is_used[i] = true;
      return &group.children[i];
    }
    return nullptr;
  }

  const MatchBy match_;
  std::vector<int> leaves_;
  std::string difference_;
};

}  // namespace

bool LeafMapping::is_identity() const {
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i] != static_cast<int>(i)) return false;
  }
  return !difference;
}

Result<LeafMapping> MapParquetLeaves(const ParquetSchema& file, const ParquetSchema& target,
                                     MatchBy match, std::string_view file_name) {
  // Both walks rest on the child counts, which this checks.
  PF_ASSIGN([[maybe_unused]] const auto file_leaves, SchemaLeaves(file, file_name));
  PF_ASSIGN([[maybe_unused]] const auto target_leaves, SchemaLeaves(target, "the target"));
  size_t next = 0;
  int leaf = 0;
  const SchemaNode file_root = BuildTree(file, next, leaf);
  next = 0;
  leaf = 0;
  const SchemaNode target_root = BuildTree(target, next, leaf);
  LeafMatcher matcher(match);
  LeafMapping mapping;
  if (!matcher.Match(file_root, target_root, true, "")) {
    mapping.difference = matcher.difference();
    return mapping;
  }
  mapping.leaves = matcher.TakeLeaves();
  for (size_t i = 0; i < mapping.leaves.size(); ++i) {
    if (mapping.leaves[i] < 0) mapping.missing.push_back(static_cast<int>(i));
  }
  return mapping;
}

int LeafColumn::value_bytes() const {
  switch (type) {
    case ParquetType::kInt32:
    case ParquetType::kFloat:
      return 4;
    case ParquetType::kInt64:
    case ParquetType::kDouble:
      return 8;
    case ParquetType::kInt96:
      return 12;
    case ParquetType::kFixed:
      return fixed_length;
    case ParquetType::kBoolean:
    case ParquetType::kByteArray:
      return 0;
  }
  return 0;
}

namespace {

// Sets how values of the leaf are seen.
void SetScalar(LeafColumn& column, const ThriftValue& element) {
  const ThriftValue* logical_type = element.Find(schema_element::kLogicalType);
  const int64_t converted_type = IntField(element, schema_element::kConvertedType, -1);
  const auto is_logical = [&](int16_t id) {
    return logical_type != nullptr && logical_type->Find(id) != nullptr;
  };
  const bool has_logical = logical_type != nullptr && logical_type->type() == ThriftType::kStruct &&
                           !logical_type->items().empty();
  const bool is_decimal = is_logical(logical::kDecimal) || converted_type == converted::kDecimal;
  if (is_logical(logical::kInteger)) {
    const ThriftValue* integer = logical_type->Find(logical::kInteger);
    const ThriftValue* is_signed = integer->Find(logical::kIntegerIsSigned);
    column.is_unsigned =
        is_signed != nullptr && is_signed->type() == ThriftType::kBool && !is_signed->AsBool();
  } else {
    column.is_unsigned =
        converted_type >= converted::kUint8 && converted_type <= converted::kUint64;
  }
  switch (column.type) {
    case ParquetType::kBoolean:
      column.scalar = ScalarType::kBoolean;
      return;
    case ParquetType::kInt32:
      column.scalar = is_decimal           ? ScalarType::kDecimal
                      : column.is_unsigned ? ScalarType::kInt64
                                           : ScalarType::kInt32;
      return;
    case ParquetType::kInt64:
      if (column.is_unsigned) return;
      column.scalar = is_decimal ? ScalarType::kDecimal : ScalarType::kInt64;
      return;
    case ParquetType::kInt96:
      return;
    case ParquetType::kFloat:
      column.scalar = ScalarType::kFloat;
      return;
    case ParquetType::kDouble:
      column.scalar = ScalarType::kDouble;
      return;
    case ParquetType::kByteArray:
    case ParquetType::kFixed: {
      if (is_decimal) {
        column.scalar = ScalarType::kDecimal;
        return;
      }
      const bool is_text = is_logical(logical::kString) || is_logical(logical::kEnum) ||
                           is_logical(logical::kJson) || converted_type == converted::kUtf8 ||
                           converted_type == converted::kEnum || converted_type == converted::kJson;
      if (is_text) {
        column.scalar = ScalarType::kString;
      } else if (is_logical(logical::kUuid) || is_logical(logical::kBson) ||
                 converted_type == converted::kBson || (!has_logical && converted_type < 0)) {
        column.scalar = ScalarType::kBytes;
      }
      return;
    }
  }
}

}  // namespace

Result<std::vector<LeafColumn>> LeafColumns(const ParquetSchema& schema,
                                            std::string_view file_name) {
  PF_ASSIGN(const std::vector<SchemaLeaf> leaves, SchemaLeaves(schema, file_name));
  std::vector<LeafColumn> columns;
  columns.reserve(leaves.size());
  for (const SchemaLeaf& leaf : leaves) {
    const ThriftValue& element = schema[leaf.element];
    PF_ASSIGN(const int64_t type, RequireInt(element, schema_element::kType, file_name));
    PF_ASSIGN(const int64_t length, IntOr(element, schema_element::kTypeLength, 0, file_name));
    LeafColumn column{
        .path = leaf.path,
        .dotted_path = fmt::format("{}", fmt::join(leaf.path, ".")),
        .max_definition_level = leaf.max_definition_level,
        .max_repetition_level = leaf.max_repetition_level,
        .field_id = static_cast<int32_t>(IntField(element, schema_element::kFieldId, -1)),
        .is_flat_top_level = leaf.path.size() == 1 && leaf.max_repetition_level == 0};
    if (type < 0 || type > static_cast<int64_t>(ParquetType::kFixed)) {
      return Status(Code::kCorruption, fmt::format("read schema of {}: column {} has type {}",
                                                   file_name, column.dotted_path, type));
    }
    column.type = static_cast<ParquetType>(type);
    if (column.type == ParquetType::kFixed) {
      if (length <= 0 || length > std::numeric_limits<int32_t>::max()) {
        return Status(Code::kCorruption,
                      fmt::format("read schema of {}: column {} has fixed length {}", file_name,
                                  column.dotted_path, length));
      }
      column.fixed_length = static_cast<int32_t>(length);
    }
    SetScalar(column, element);
    columns.push_back(std::move(column));
  }
  return columns;
}

namespace {

template <class T>
std::optional<T> Load(std::string_view bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <class T>
std::string Store(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

std::optional<Scalar> ScalarOfPlain(const LeafColumn& column, std::string_view bytes) {
  if (!column.scalar) return std::nullopt;
  const auto integer = [&]() -> std::optional<int64_t> {
    if (column.type == ParquetType::kInt64) return Load<int64_t>(bytes);
    if (column.is_unsigned) {
      const auto value = Load<uint32_t>(bytes);
      return value ? std::optional<int64_t>(*value) : std::nullopt;
    }
    const auto value = Load<int32_t>(bytes);
    return value ? std::optional<int64_t>(*value) : std::nullopt;
  };
  switch (*column.scalar) {
    case ScalarType::kBoolean:
      if (bytes.size() != 1 || static_cast<uint8_t>(bytes[0]) > 1) return std::nullopt;
      return Scalar::Boolean(bytes[0] != 0);
    case ScalarType::kInt32: {
      const auto value = integer();
      if (!value) return std::nullopt;
      return Scalar::Int32(static_cast<int32_t>(*value));
    }
    case ScalarType::kInt64: {
      const auto value = integer();
      if (!value) return std::nullopt;
      return Scalar::Int64(*value);
    }
    case ScalarType::kFloat: {
      const auto value = Load<float>(bytes);
      if (!value || std::isnan(*value)) return std::nullopt;
      return Scalar::Float(*value);
    }
    case ScalarType::kDouble: {
      const auto value = Load<double>(bytes);
      if (!value || std::isnan(*value)) return std::nullopt;
      return Scalar::Double(*value);
    }
    case ScalarType::kDecimal: {
      if (column.type == ParquetType::kInt32 || column.type == ParquetType::kInt64) {
        const auto value = integer();
        if (!value) return std::nullopt;
        return Scalar::Decimal(Int128::Of(*value));
      }
      const auto value =
          FromBigEndian(std::as_bytes(std::span(bytes.data(), bytes.size())), "decimal");
      if (!value.ok()) return std::nullopt;
      return Scalar::Decimal(*value);
    }
    case ScalarType::kString:
      return Scalar::String(std::string(bytes));
    case ScalarType::kBytes:
      return Scalar::Bytes(std::string(bytes));
    case ScalarType::kInt8:
    case ScalarType::kInt16:
      break;
  }
  return std::nullopt;
}

std::optional<std::string> PlainOfScalar(const LeafColumn& column, const Scalar& value) {
  if (!column.scalar) return std::nullopt;
  switch (column.type) {
    case ParquetType::kInt32:
    case ParquetType::kInt64: {
      int64_t number = 0;
      if (value.type() == ScalarType::kDecimal && *column.scalar == ScalarType::kDecimal) {
        if (Int128::Of(static_cast<int64_t>(value.AsDecimal().low)) != value.AsDecimal()) {
          return std::nullopt;
        }
        number = static_cast<int64_t>(value.AsDecimal().low);
      } else if (value.type() >= ScalarType::kInt8 && value.type() <= ScalarType::kInt64) {
        number = value.AsInt();
      } else {
        return std::nullopt;
      }
      if (column.type == ParquetType::kInt64) return Store(number);
      if (column.is_unsigned ? number != static_cast<uint32_t>(number)
                             : number != static_cast<int32_t>(number)) {
        return std::nullopt;
      }
      return Store(static_cast<uint32_t>(number));
    }
    case ParquetType::kFloat:
      if (value.type() != ScalarType::kFloat) return std::nullopt;
      return Store(static_cast<float>(value.AsDouble()));
    case ParquetType::kDouble:
      if (value.type() != ScalarType::kDouble) return std::nullopt;
      return Store(value.AsDouble());
    case ParquetType::kByteArray:
    case ParquetType::kFixed:
      if (*column.scalar == ScalarType::kDecimal) return std::nullopt;  // width is the writer's
      if (value.type() != ScalarType::kString && value.type() != ScalarType::kBytes) {
        return std::nullopt;
      }
      return value.AsBytes();
    case ParquetType::kBoolean:
    case ParquetType::kInt96:
      break;
  }
  return std::nullopt;
}

}  // namespace partforge::data
