#include "data/schema_mapping.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/array/util.h>
#include <arrow/compute/cast.h>
#include <arrow/compute/exec.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/bitmap_ops.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

namespace partforge::data {

using arrow::Type;

int32_t FieldIdOf(const arrow::Field& field) {
  if (field.metadata() == nullptr) return -1;
  const int at = field.metadata()->FindKey(kFieldIdKey);
  if (at < 0) return -1;
  const std::string& text = field.metadata()->value(at);
  int32_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() && id >= 0 ? id : -1;
}

bool IsField(const arrow::Field& field, const FieldRef& ref) {
  return ref.id >= 0 ? FieldIdOf(field) == ref.id : field.name() == ref.name;
}

std::shared_ptr<arrow::Field> WithFieldId(const std::shared_ptr<arrow::Field>& field, int32_t id) {
  const auto ids = arrow::key_value_metadata({kFieldIdKey}, {std::to_string(id)});
  return field->WithMergedMetadata(ids);
}

namespace {

// An extension type is read as what it is stored as.
const arrow::DataType& StorageOf(const arrow::DataType& type) {
  const arrow::DataType* storage = &type;
  while (storage->id() == Type::EXTENSION) {
    storage = static_cast<const arrow::ExtensionType&>(*storage).storage_type().get();
  }
  return *storage;
}

int LeafCountOf(const arrow::DataType& type) {
  const arrow::DataType& storage = StorageOf(type);
  if (storage.num_fields() == 0) return 1;
  int count = 0;
  for (const auto& child : storage.fields()) count += LeafCountOf(*child->type());
  return count;
}

bool IsList(Type::type id) {
  return id == Type::LIST || id == Type::LARGE_LIST;
}

bool IsIntegral(Type::type id) {
  return id >= Type::UINT8 && id <= Type::INT64;
}

bool IsDecimal(Type::type id) {
  return id == Type::DECIMAL32 || id == Type::DECIMAL64 || id == Type::DECIMAL128 ||
         id == Type::DECIMAL256;
}

bool IsBytes(Type::type id) {
  return id == Type::BINARY || id == Type::LARGE_BINARY || id == Type::BINARY_VIEW ||
         id == Type::STRING || id == Type::LARGE_STRING || id == Type::STRING_VIEW ||
         id == Type::FIXED_SIZE_BINARY;
}

bool IsTime(Type::type id) {
  return id == Type::TIME32 || id == Type::TIME64;
}

bool HasZone(const arrow::DataType& type) {
  return !static_cast<const arrow::TimestampType&>(type).timezone().empty();
}

// Types whose values the other type can hold, or can hold where Arrow's checked cast says so.
bool Promotes(const arrow::DataType& from, const arrow::DataType& to, ZonesOfTimes zones) {
  if (from.Equals(to)) return true;
  const Type::type a = from.id(), b = to.id();
  if (a == Type::DICTIONARY) {
    return Promotes(*static_cast<const arrow::DictionaryType&>(from).value_type(), to, zones);
  }
  if (a == Type::NA) return true;
  if (IsIntegral(a)) {
    if (IsIntegral(b)) {
      return static_cast<const arrow::FixedWidthType&>(from).bit_width() <=
             static_cast<const arrow::FixedWidthType&>(to).bit_width();
    }
    return b == Type::DOUBLE && a != Type::INT64 && a != Type::UINT64;
  }
  if (a == Type::HALF_FLOAT) return b == Type::FLOAT || b == Type::DOUBLE;
  if (a == Type::FLOAT) return b == Type::DOUBLE;
  if (IsDecimal(a)) return IsDecimal(b);
  if (a == Type::DATE32) {
    return b == Type::DATE64 ||
           (b == Type::TIMESTAMP && (zones == ZonesOfTimes::kAsWanted || !HasZone(to)));
  }
  if (a == Type::TIMESTAMP) {
    return b == Type::TIMESTAMP &&
           (zones == ZonesOfTimes::kAsWanted || HasZone(from) == HasZone(to));
  }
  if (IsTime(a)) return IsTime(b);
  if (IsBytes(a)) return IsBytes(b);
  if (IsList(a)) {
    return IsList(b) && Promotes(*static_cast<const arrow::BaseListType&>(from).value_type(),
                                 *static_cast<const arrow::BaseListType&>(to).value_type(), zones);
  }
  return false;
}

// A promotion that keeps values and their order as they are in the file's statistics.
bool KeepsValues(const arrow::DataType& from, const arrow::DataType& to) {
  if (from.id() == Type::DICTIONARY) {
    return KeepsValues(*static_cast<const arrow::DictionaryType&>(from).value_type(), to);
  }
  if (from.Equals(to)) return true;
  if (IsIntegral(from.id())) return IsIntegral(to.id());
  if (from.id() == Type::FLOAT) return to.id() == Type::DOUBLE;
  if (IsDecimal(from.id()) && IsDecimal(to.id())) {
    return static_cast<const arrow::DecimalType&>(from).scale() ==
           static_cast<const arrow::DecimalType&>(to).scale();
  }
  if (from.id() == Type::TIMESTAMP && to.id() == Type::TIMESTAMP) {
    return static_cast<const arrow::TimestampType&>(from).unit() ==
           static_cast<const arrow::TimestampType&>(to).unit();
  }
  return IsBytes(from.id()) && IsBytes(to.id());
}

bool IsEmptyStruct(const arrow::Scalar& value) {
  return value.is_valid && value.type->id() == Type::STRUCT && value.type->num_fields() == 0;
}

bool HasAnyId(const arrow::FieldVector& fields) {
  return std::any_of(fields.begin(), fields.end(), [](const auto& field) {
    return FieldIdOf(*field) >= 0 || HasAnyId(StorageOf(*field->type()).fields());
  });
}

}  // namespace

int LeafCount(const arrow::Field& field) {
  return LeafCountOf(*field.type());
}

// What is done for one wanted field.
struct SchemaMapping::Node {
  enum class Kind : uint8_t { kTake, kCast, kFill, kFillStruct, kStruct, kList, kMap };
  Kind kind = Kind::kFill;
  int source = -1;  // index among the children that are read; -1 for kFill, kFillStruct
  int leaf = -1;    // of the file, for a flat column that keeps its values, or a timestamp
  bool has_other_unit = false;  // a timestamp that is read in another unit than the file's
  std::shared_ptr<arrow::Field> field = nullptr;  // wanted
  std::shared_ptr<arrow::Scalar> fill = nullptr;  // null: nulls
  std::string path = {};
  // kStruct, kFillStruct: all; kList: the element; kMap: key and value
  std::vector<Node> children = {};
};

// Finds the columns and collects the leaves to read.
class SchemaMapping::Builder {
 public:
  Builder(const MappingOptions& options, const std::string& file_name, bool file_has_ids)
      : options_(options), file_name_(file_name), file_has_ids_(file_has_ids) {}

  Result<std::vector<Node>> Columns(const arrow::FieldVector& file,
                                    const arrow::FieldVector& wanted) {
    return Fields(file, wanted, 0, "", "");
  }
  std::vector<int> TakeLeaves() {
    std::sort(leaves_.begin(), leaves_.end());
    return std::move(leaves_);
  }

 private:
  bool Matches(const arrow::Field& file, const std::string& file_path,
               const arrow::Field& wanted) const {
    if (options_.match == MatchBy::kName) return file.name() == wanted.name();
    const int32_t id = FieldIdOf(wanted);
    if (id < 0) return file.name() == wanted.name();
    if (file_has_ids_) return FieldIdOf(file) == id;
    return std::any_of(options_.name_ids.begin(), options_.name_ids.end(),
                       [&](const NameId& n) { return n.id == id && n.path == file_path; });
  }

  // Fields of the root or of a struct. `first_leaf` is the leaf the file's first field begins with.
  Result<std::vector<Node>> Fields(const arrow::FieldVector& file, const arrow::FieldVector& wanted,
                                   int first_leaf, const std::string& file_path,
                                   const std::string& path) {
    const auto below = [](const std::string& parent, const std::string& name) {
      return parent.empty() ? name : parent + "." + name;
    };
    std::vector<int> first_leaves;
    for (const auto& field : file) {
      first_leaves.push_back(first_leaf);
      first_leaf += LeafCount(*field);
    }
    std::vector<bool> is_used(file.size(), false);
    std::vector<Node> nodes;
    for (const auto& field : wanted) {
      Node node{.field = field, .path = below(path, field->name())};
      for (size_t i = 0; i < file.size(); ++i) {
        if (!Matches(*file[i], below(file_path, file[i]->name()), *field)) continue;
        // Of several fields that are called the same, each stands for one of those wanted. One that
        // is wanted twice comes twice, unless the other is then missing from the file.
        if (node.source < 0 || !is_used[i]) node.source = static_cast<int>(i);
        if (!is_used[i]) break;
      }
      const auto found = static_cast<size_t>(std::max(node.source, 0));
      if (node.source >= 0 && is_used[found] && options_.absent == AbsentFields::kRefused) {
        node.source = -1;
      }
      if (node.source >= 0) {
        is_used[found] = true;
        PF_TRY(
            Bind(node, *file[found], first_leaves[found], below(file_path, file[found]->name())));
      } else {
        PF_TRY(Fill(node, path.empty()));
      }
      nodes.push_back(std::move(node));
    }
    Renumber(nodes);
    return nodes;
  }

  // Positions among all children of the file become positions among those that are read.
  static void Renumber(std::vector<Node>& nodes) {
    std::vector<int> read;
    for (const Node& node : nodes) {
      if (node.source >= 0) read.push_back(node.source);
    }
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (Node& node : nodes) {
      if (node.source < 0) continue;
      node.source =
          static_cast<int>(std::lower_bound(read.begin(), read.end(), node.source) - read.begin());
    }
  }

  Status Fill(Node& node, bool is_top_level) {
    node.kind = Node::Kind::kFill;
    if (options_.absent == AbsentFields::kRefused) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("map columns of {}: the file lacks column {}", file_name_, node.path));
    }
    for (const FillIn& fill : options_.fill_ins) {
      const bool is_it = fill.field_id >= 0 ? FieldIdOf(*node.field) == fill.field_id
                                            : is_top_level && fill.column == node.field->name();
      if (!is_it) continue;
      const arrow::DataType& type = *node.field->type();
      if (type.id() == Type::STRUCT && IsEmptyStruct(*fill.value)) {
        node.kind = Node::Kind::kFillStruct;
        PF_ASSIGN(node.children, Fields({}, type.fields(), 0, "", node.path));
        return {};
      }
      if (!fill.value->type->Equals(*node.field->type())) {
        return Status(
            Code::kInvalidArgument,
            fmt::format("map columns of {}: the value for column {} is of type {}, "
                        "wanted {}",
                        file_name_, node.path, fill.value->type->ToString(), type.ToString()));
      }
      node.fill = fill.value;
      return {};
    }
    if (node.field->nullable()) return {};
    return Status(Code::kInvalidArgument,
                  fmt::format("map columns of {}: the file lacks the required column {}",
                              file_name_, node.path));
  }

  Status Bind(Node& node, const arrow::Field& file, int leaf, const std::string& file_path) {
    const arrow::DataType& from = StorageOf(*file.type());
    const arrow::DataType& to = StorageOf(*node.field->type());
    const bool is_wrapped =
        file.type()->id() == Type::EXTENSION || node.field->type()->id() == Type::EXTENSION;
    const size_t leaves_before = leaves_.size();
    const bool may_rebuild = node.field->type()->id() != Type::EXTENSION;
    if (may_rebuild && from.id() == Type::STRUCT && to.id() == Type::STRUCT) {
      node.kind = Node::Kind::kStruct;
      PF_ASSIGN(node.children, Fields(from.fields(), to.fields(), leaf, file_path, node.path));
    } else if (may_rebuild && IsList(from.id()) && from.id() == to.id()) {
      node.kind = Node::Kind::kList;
      PF_ASSIGN(Node element, Inner(from.field(0), to.field(0), leaf, file_path, node.path));
      node.children.push_back(std::move(element));
    } else if (may_rebuild && from.id() == Type::MAP && to.id() == Type::MAP) {
      node.kind = Node::Kind::kMap;
      const auto& from_map = static_cast<const arrow::MapType&>(from);
      const auto& to_map = static_cast<const arrow::MapType&>(to);
      PF_ASSIGN(Node key,
                Inner(from_map.key_field(), to_map.key_field(), leaf, file_path, node.path));
      const int key_leaves = LeafCount(*from_map.key_field());
      PF_ASSIGN(Node value, Inner(from_map.item_field(), to_map.item_field(), leaf + key_leaves,
                                  file_path, node.path));
      node.children.push_back(std::move(key));
      node.children.push_back(std::move(value));
    } else {
      if (!Promotes(from, to, options_.zones)) {
        return Status(Code::kInvalidArgument,
                      fmt::format("map columns of {}: column {} is of type {} and does not "
                                  "promote to {}",
                                  file_name_, node.path, from.ToString(), to.ToString()));
      }
      node.kind = from.Equals(to) && !is_wrapped ? Node::Kind::kTake : Node::Kind::kCast;
      for (int i = 0; i < LeafCountOf(from); ++i) leaves_.push_back(leaf + i);
      const bool is_time = from.id() == Type::TIMESTAMP && to.id() == Type::TIMESTAMP;
      if (from.num_fields() == 0 && KeepsValues(from, to)) {
        node.leaf = leaf;
      } else if (is_time) {
        node.leaf = leaf;
        node.has_other_unit = true;
      }
    }
    // Only fields that the file lacks are wanted: the first leaf still tells where the parent is
    // null.
    if (leaves_.size() == leaves_before) {
      leaves_.push_back(leaf);
    }
    return {};
  }

  // The element of a list, or key or value of a map: found by its place, never by name or id.
  Result<Node> Inner(const std::shared_ptr<arrow::Field>& file,
                     const std::shared_ptr<arrow::Field>& wanted, int leaf,
                     const std::string& file_path, const std::string& path) {
    Node node{.source = 0, .field = wanted, .path = path + "." + wanted->name()};
    PF_TRY(Bind(node, *file, leaf, file_path + "." + file->name()));
    return node;
  }

  const MappingOptions& options_;
  const std::string& file_name_;
  const bool file_has_ids_;
  std::vector<int> leaves_;
};

Result<SchemaMapping> SchemaMapping::Make(const std::shared_ptr<arrow::Schema>& file,
                                          const std::shared_ptr<arrow::Schema>& wanted,
                                          const MappingOptions& options, std::string file_name) {
  const bool has_ids = HasAnyId(file->fields());
  if (options.match == MatchBy::kFieldId && !has_ids && options.name_ids.empty()) {
    return Status(Code::kRefused,
                  fmt::format("map columns by id: the file has no field ids and the table no name "
                              "mapping: {}",
                              file_name));
  }
  SchemaMapping mapping;
  mapping.wanted_ = wanted;
  mapping.file_name_ = std::move(file_name);
  Builder builder(options, mapping.file_name_, has_ids);
  PF_ASSIGN(auto columns, builder.Columns(file->fields(), wanted->fields()));
  mapping.columns_ = std::make_shared<const std::vector<Node>>(std::move(columns));
  mapping.leaves_ = builder.TakeLeaves();
  // Two wanted columns may come from one column of the file.
  mapping.leaves_.erase(std::unique(mapping.leaves_.begin(), mapping.leaves_.end()),
                        mapping.leaves_.end());
  return mapping;
}

const SchemaMapping::Node* SchemaMapping::NodeOf(const FieldRef& column) const {
  for (const Node& node : *columns_) {
    if (IsField(*node.field, column)) return &node;
  }
  return nullptr;
}

std::optional<int> SchemaMapping::LeafOf(const FieldRef& column) const {
  const Node* const node = NodeOf(column);
  if (node == nullptr || node->leaf < 0 || node->has_other_unit) return std::nullopt;
  return node->leaf;
}

std::optional<int> SchemaMapping::TimestampLeafOf(const FieldRef& column) const {
  const Node* const node = NodeOf(column);
  if (node == nullptr || node->leaf < 0) return std::nullopt;
  return node->field->type()->id() == Type::TIMESTAMP ? std::optional(node->leaf) : std::nullopt;
}

// Builds the arrays of one batch.
class SchemaMapping::Applier {
 public:
  Applier(const std::string& file_name, int64_t first_row, ArrowMemory& memory)
      : file_name_(file_name), first_row_(first_row), memory_(memory) {}

  using ArrayRef = std::shared_ptr<arrow::Array>;

  // kCorruption for a null in the column, or in one of its inner fields, that may hold none and is
  // not hidden by a null around it.
  Status CheckRequired(const Node& node, const arrow::Array& column) const {
    return CheckNulls(*node.field, column, node.path,
                      [](int64_t row) { return std::optional<int64_t>(row); });
  }

  Result<ArrayRef> Build(const Node& node, const ArrayRef& source, int64_t length) {
    switch (node.kind) {
      case Node::Kind::kTake:
        return source;
      case Node::Kind::kCast:
        return Cast(node, source);
      case Node::Kind::kFill:
        return FillColumn(node, length);
      case Node::Kind::kFillStruct:
        return FillStruct(node, length);
      case Node::Kind::kStruct:
        return BuildStruct(node, *source);
      case Node::Kind::kList:
        return BuildList(node, *source);
      case Node::Kind::kMap:
        return BuildMap(node, *source);
    }
    return Status(Code::kInternal, "a mapping of no kind");
  }

 private:
  // The row of the batch that a value belongs to; none when a null around it hides it.
  using RowOf = std::function<std::optional<int64_t>(int64_t)>;

  Status CheckNulls(const arrow::Field& field, const arrow::Array& array, const std::string& path,
                    const RowOf& row_of) const {
    if (!field.nullable() && array.null_count() > 0) {
      for (int64_t i = 0; i < array.length(); ++i) {
        if (array.IsValid(i)) continue;
        if (const auto row = row_of(i)) {
          return Status(Code::kCorruption,
                        fmt::format("read {}: null in required column {}, row {}", file_name_, path,
                                    first_row_ + *row));
        }
      }
    }
    switch (array.type_id()) {
      case Type::STRUCT: {
        const auto& rows = static_cast<const arrow::StructArray&>(array);
        const RowOf inner = [&](int64_t i) { return rows.IsValid(i) ? row_of(i) : std::nullopt; };
        for (int c = 0; c < rows.num_fields(); ++c) {
          const arrow::Field& child = *rows.type()->field(c);
          PF_TRY(CheckNulls(child, *rows.field(c), path + "." + child.name(), inner));
        }
        return {};
      }
      case Type::LIST:
        return CheckElements(static_cast<const arrow::ListArray&>(array), path, row_of);
      case Type::LARGE_LIST:
        return CheckElements(static_cast<const arrow::LargeListArray&>(array), path, row_of);
      case Type::MAP:
        return CheckElements(static_cast<const arrow::MapArray&>(array), path, row_of);
      default:
        return {};
    }
  }

  template <class Lists>
  Status CheckElements(const Lists& lists, const std::string& path, const RowOf& row_of) const {
    const auto* const offsets = lists.raw_value_offsets();
    const RowOf inner = [&](int64_t element) -> std::optional<int64_t> {
      const auto* const after = std::upper_bound(offsets, offsets + lists.length() + 1, element);
      const int64_t list = after - offsets - 1;
      if (list < 0 || list >= lists.length() || lists.IsNull(list)) return std::nullopt;
      return row_of(list);
    };
    const arrow::Field& element = *lists.type()->field(0);
    return CheckNulls(element, *lists.values(), path + "." + element.name(), inner);
  }

  static ArrayRef Plain(const ArrayRef& array) {
    ArrayRef plain = array;
    while (plain->type_id() == Type::EXTENSION) {
      plain = static_cast<const arrow::ExtensionArray&>(*plain).storage();
    }
    return plain;
  }

  Result<ArrayRef> CastTo(const arrow::Array& source,
                          const std::shared_ptr<arrow::DataType>& type) const {
    arrow::compute::ExecContext exec(memory_.pool());
    exec.set_use_threads(false);
    PF_ARROW_ASSIGN(ArrayRef result,
                    arrow::compute::Cast(source, type, arrow::compute::CastOptions::Safe(), &exec));
    return result;
  }

  // An extension type (a UUID) is cast to as what it is stored as, and wrapped.
  Result<ArrayRef> Cast(const Node& node, const ArrayRef& source) const {
    std::shared_ptr<arrow::DataType> type = node.field->type();
    if (type->id() != Type::EXTENSION) return CastStorage(node, source, type);
    PF_ASSIGN(
        const ArrayRef storage,
        CastStorage(node, source, static_cast<const arrow::ExtensionType&>(*type).storage_type()));
    return arrow::ExtensionType::WrapArray(type, storage);
  }

  Result<ArrayRef> CastStorage(const Node& node, const ArrayRef& source,
                               const std::shared_ptr<arrow::DataType>& type) const {
    const ArrayRef plain = Plain(source);
    if (plain->type()->Equals(*type)) return plain;
    auto result = CastTo(*plain, type);
    if (result.ok() || result.status().code() == Code::kExhausted) return result;
    // Halving finds the first value that does not fit.
    int64_t begin = 0, count = plain->length();
    while (count > 1) {
      const int64_t half = count / 2;
      if (CastTo(*plain->Slice(begin, half), type).ok())
        begin += half, count -= half;
      else
        count = half;
    }
    return Status(Code::kCorruption,
                  fmt::format("read {}: column {}, row {}: {}", file_name_, node.path,
                              first_row_ + begin, result.status().message()));
  }

  Result<ArrayRef> FillColumn(const Node& node, int64_t length) const {
    if (node.fill == nullptr) {
      PF_ARROW_ASSIGN(ArrayRef nulls,
                      arrow::MakeArrayOfNull(node.field->type(), length, memory_.pool()));
      return nulls;
    }
    PF_ARROW_ASSIGN(ArrayRef constant,
                    arrow::MakeArrayFromScalar(*node.fill, length, memory_.pool()));
    return constant;
  }

  Result<ArrayRef> FillStruct(const Node& node, int64_t length) {
    arrow::ArrayVector children;
    for (const Node& child : node.children) {
      PF_ASSIGN(ArrayRef built, Build(child, nullptr, length));
      children.push_back(std::move(built));
    }
    return ArrayRef(
        std::make_shared<arrow::StructArray>(node.field->type(), length, std::move(children)));
  }

  // The validity of an array as a bitmap that begins at bit 0; null when nothing is null.
  Result<std::shared_ptr<arrow::Buffer>> Validity(const arrow::Array& array) const {
    if (array.null_count() == 0) return std::shared_ptr<arrow::Buffer>();
    if (array.offset() == 0) return array.null_bitmap();
    PF_ARROW_ASSIGN(auto bitmap,
                    arrow::internal::CopyBitmap(memory_.pool(), array.null_bitmap_data(),
                                                array.offset(), array.length()));
    return bitmap;
  }

  Result<ArrayRef> BuildStruct(const Node& node, const arrow::Array& array) {
    const ArrayRef plain = Plain(arrow::MakeArray(array.data()));
    const auto& source = static_cast<const arrow::StructArray&>(*plain);
    arrow::ArrayVector children;
    for (const Node& child : node.children) {
      const ArrayRef field = child.source < 0 ? nullptr : source.field(child.source);
      PF_ASSIGN(ArrayRef built, Build(child, field, source.length()));
      children.push_back(std::move(built));
    }
    PF_ASSIGN(auto validity, Validity(source));
    return ArrayRef(std::make_shared<arrow::StructArray>(node.field->type(), source.length(),
                                                         std::move(children), std::move(validity),
                                                         source.null_count()));
  }

  // A list or map with other children: offsets and validity stay as they are.
  static ArrayRef WithChild(const arrow::Array& source, const Node& node,
                            std::shared_ptr<arrow::ArrayData> child) {
    auto data = source.data()->Copy();
    data->type = node.field->type();
    data->child_data = {std::move(child)};
    return arrow::MakeArray(std::move(data));
  }

  Result<ArrayRef> BuildList(const Node& node, const arrow::Array& source) {
    const ArrayRef values = arrow::MakeArray(source.data()->child_data[0]);
    PF_ASSIGN(const ArrayRef built, Build(node.children[0], values, values->length()));
    return WithChild(source, node, built->data());
  }

  Result<ArrayRef> BuildMap(const Node& node, const arrow::Array& source) {
    const auto entries = std::static_pointer_cast<arrow::StructArray>(
        arrow::MakeArray(source.data()->child_data[0]));
    PF_ASSIGN(const ArrayRef keys, Build(node.children[0], entries->field(0), entries->length()));
    PF_ASSIGN(const ArrayRef values, Build(node.children[1], entries->field(1), entries->length()));
    const auto& map = static_cast<const arrow::MapType&>(*node.field->type());
    const auto built = std::make_shared<arrow::StructArray>(map.value_type(), entries->length(),
                                                            arrow::ArrayVector{keys, values});
    return WithChild(source, node, built->data());
  }

  const std::string& file_name_;
  const int64_t first_row_;
  ArrowMemory& memory_;
};

Result<std::shared_ptr<arrow::RecordBatch>> SchemaMapping::Apply(const arrow::RecordBatch& batch,
                                                                 int64_t first_row,
                                                                 ArrowMemory& memory) const {
  PF_TRY(EnsureArrowCompute());
  Applier applier(file_name_, first_row, memory);
  arrow::ArrayVector columns;
  for (const Node& node : *columns_) {
    const auto source = node.source < 0 ? nullptr : batch.column(node.source);
    PF_ASSIGN(auto column, applier.Build(node, source, batch.num_rows()));
    PF_TRY(applier.CheckRequired(node, *column));
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(wanted_, batch.num_rows(), std::move(columns));
}

}  // namespace partforge::data
