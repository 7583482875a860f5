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

#include "data/int96.h"
#include "data/required_fields.h"

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

bool HasZone(const arrow::DataType& timestamp) {
  return !static_cast<const arrow::TimestampType&>(timestamp).timezone().empty();
}

// Types whose values the other type can hold, or can hold where Arrow's checked cast says so.
bool Promotes(const arrow::DataType& from, const arrow::DataType& to, bool ignores_time_zones) {
  if (from.Equals(to)) return true;
  const Type::type a = from.id(), b = to.id();
  if (a == Type::DICTIONARY) {
    return Promotes(*static_cast<const arrow::DictionaryType&>(from).value_type(), to,
                    ignores_time_zones);
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
  // A local time is no instant.
  if (a == Type::DATE32) {
    return b == Type::DATE64 || (b == Type::TIMESTAMP && (ignores_time_zones || !HasZone(to)));
  }
  if (a == Type::TIMESTAMP) {
    return b == Type::TIMESTAMP && (ignores_time_zones || HasZone(from) == HasZone(to));
  }
  if (IsTime(a)) return IsTime(b);
  if (IsBytes(a)) return IsBytes(b);
  if (IsList(a)) {
    return IsList(b) &&
           Promotes(*static_cast<const arrow::BaseListType&>(from).value_type(),
                    *static_cast<const arrow::BaseListType&>(to).value_type(), ignores_time_zones);
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
  enum class Kind : uint8_t { kTake, kCast, kInt96, kFill, kStruct, kList, kMap };
  Kind kind = Kind::kFill;
  int source = -1;           // index among the children that are read; -1 for kFill
  int leaf = -1;             // of the file, for a flat column that keeps its values
  bool cuts_digits = false;  // kInt96
  std::shared_ptr<arrow::Field> field = nullptr;  // wanted
  std::shared_ptr<arrow::Scalar> fill = nullptr;  // null: nulls
  std::string path = {};
  std::vector<Node> children = {};  // kStruct: all; kList: the element; kMap: key and value
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

  // The file's field for the wanted one among those that are not taken; one of the same id first.
  struct Found {
    std::optional<size_t> index;
    bool is_taken = false;    // there is one, which another column wanted has
    bool has_others = false;  // there are more
  };
  Found Find(const arrow::FieldVector& file, const std::string& file_path,
             const arrow::Field& wanted, const std::vector<bool>& is_used) const {
    Found found;
    bool best_has_id = false;
    for (size_t i = 0; i < file.size(); ++i) {
      if (!Matches(*file[i], Below(file_path, file[i]->name()), wanted)) continue;
      if (is_used[i]) {
        found.is_taken = true;
        continue;
      }
      const bool has_id = FieldIdOf(*file[i]) == FieldIdOf(wanted);
      found.has_others = found.has_others || found.index;
      if (found.index && (best_has_id || !has_id)) continue;
      found.index = i;
      best_has_id = has_id;
    }
    return found;
  }

  static std::string Below(const std::string& parent, const std::string& name) {
    return parent.empty() ? name : parent + "." + name;
  }

  Status CannotTell(const std::string& path, std::string_view why) const {
    return Status(Code::kInvalidArgument,
                  fmt::format("map columns of {}: {}: {}", file_name_, why, path));
  }

  // Fields of the root or of a struct. `first_leaf` is the leaf the file's first field begins with.
  Result<std::vector<Node>> Fields(const arrow::FieldVector& file, const arrow::FieldVector& wanted,
                                   int first_leaf, const std::string& file_path,
                                   const std::string& path) {
    std::vector<int> leaves;
    for (int leaf = first_leaf; const auto& field : file) {
      leaves.push_back(leaf);
      leaf += LeafCount(*field);
    }
    std::vector<Node> nodes;
    std::vector<bool> is_used(file.size());
    std::vector<const arrow::Field*> unsure;  // wanted, and found more than once
    for (const auto& field : wanted) {
      Node node{.field = field, .path = Below(path, field->name())};
      const Found found = Find(file, file_path, *field, is_used);
      if (found.index) {
        const arrow::Field& source = *file[*found.index];
        is_used[*found.index] = true;
        node.source = static_cast<int>(*found.index);
        PF_TRY(Bind(node, source, leaves[*found.index], Below(file_path, source.name())));
        if (found.has_others) unsure.push_back(field.get());
      } else if (found.is_taken) {
        return CannotTell(node.path, "a column is wanted more often than the file has it");
      } else {
        PF_TRY(Fill(node, path.empty()));
      }
      nodes.push_back(std::move(node));
    }
    for (const arrow::Field* field : unsure) {
      if (Find(file, file_path, *field, is_used).index) {
        return CannotTell(Below(path, field->name()),
                          "the file has a column more often than wanted");
      }
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
    if (is_top_level) {
      for (const FillIn& fill : options_.fill_ins) {
        if (fill.column != node.field->name()) continue;
        if (!fill.value->type->Equals(*node.field->type())) {
          return Status(Code::kInvalidArgument,
                        fmt::format("map columns of {}: the value for column {} is of type {}, "
                                    "wanted {}",
                                    file_name_, node.path, fill.value->type->ToString(),
                                    node.field->type()->ToString()));
        }
        node.fill = fill.value;
        return {};
      }
    }
    if (node.field->nullable() && options_.fills_absent) return {};
    if (node.field->nullable()) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("map columns of {}: the file lacks column {}", file_name_, node.path));
    }
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
    if (IsMarkedInt96(file) && to.id() == Type::TIMESTAMP) {
      node.kind = Node::Kind::kInt96;
      node.cuts_digits = options_.cuts_int96_digits;
      leaves_.push_back(leaf);
    } else if (may_rebuild && from.id() == Type::STRUCT && to.id() == Type::STRUCT) {
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
      if (IsMarkedInt96(file) || !Promotes(from, to, options_.ignores_time_zones)) {
        return Status(Code::kInvalidArgument,
                      fmt::format("map columns of {}: column {} is of type {} and does not "
                                  "promote to {}",
                                  file_name_, node.path,
                                  IsMarkedInt96(file) ? "INT96" : from.ToString(), to.ToString()));
      }
      node.kind = from.Equals(to) && !is_wrapped ? Node::Kind::kTake : Node::Kind::kCast;
      for (int i = 0; i < LeafCountOf(from); ++i) leaves_.push_back(leaf + i);
      if (from.num_fields() == 0 && KeepsValues(from, to)) node.leaf = leaf;
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
  // A leaf may be read for the sake of its parent's nulls, too.
  mapping.leaves_.erase(std::unique(mapping.leaves_.begin(), mapping.leaves_.end()),
                        mapping.leaves_.end());
  return mapping;
}

std::optional<int> SchemaMapping::LeafOf(const FieldRef& column) const {
  for (const Node& node : *columns_) {
    const bool is_it =
        column.id >= 0 ? FieldIdOf(*node.field) == column.id : node.field->name() == column.name;
    if (is_it) return node.leaf >= 0 ? std::optional(node.leaf) : std::nullopt;
  }
  return std::nullopt;
}

// Builds the arrays of one batch.
class SchemaMapping::Applier {
 public:
  Applier(const std::string& file_name, int64_t first_row, ArrowMemory& memory)
      : file_name_(file_name), first_row_(first_row), memory_(memory) {}

  using ArrayRef = std::shared_ptr<arrow::Array>;

  Result<ArrayRef> Build(const Node& node, const ArrayRef& source, int64_t length) {
    switch (node.kind) {
      case Node::Kind::kTake:
        return source;
      case Node::Kind::kCast:
        return Cast(node, source);
      case Node::Kind::kInt96:
        return Times(node, *source);
      case Node::Kind::kFill:
        return FillColumn(node, length);
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

  Result<ArrayRef> Times(const Node& node, const arrow::Array& source) const {
    const auto& bytes = static_cast<const arrow::FixedSizeBinaryArray&>(source);
    const auto unit = static_cast<const arrow::TimestampType&>(*node.field->type()).unit();
    const int64_t per_second = unit == arrow::TimeUnit::SECOND  ? 1
                               : unit == arrow::TimeUnit::MILLI ? 1'000
                               : unit == arrow::TimeUnit::MICRO ? 1'000'000
                                                                : 1'000'000'000;
    PF_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> buffer,
                    arrow::AllocateBuffer(bytes.length() * static_cast<int64_t>(sizeof(int64_t)),
                                          memory_.pool()));
    auto* values = reinterpret_cast<int64_t*>(buffer->mutable_data());
    for (int64_t i = 0; i < bytes.length(); ++i) {
      values[i] = 0;
      if (bytes.IsNull(i)) continue;
      const Int96Time time = TimeOfInt96(bytes.GetValue(i), per_second);
      values[i] = time.value;
      if (time.fit == Int96Time::Fit::kExact) continue;
      if (time.fit == Int96Time::Fit::kHasMoreDigits && node.cuts_digits) continue;
      return Status(Code::kCorruption, fmt::format("read {}: column {}, row {}: INT96 {} {}",
                                                   file_name_, node.path, first_row_ + i,
                                                   time.fit == Int96Time::Fit::kTooFar
                                                       ? "holds a time too far away for"
                                                       : "would lose data in",
                                                   node.field->type()->ToString()));
    }
    PF_ASSIGN(auto validity, Validity(source));
    return ArrayRef(std::make_shared<arrow::TimestampArray>(node.field->type(), bytes.length(),
                                                            std::move(buffer), std::move(validity),
                                                            bytes.null_count()));
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
    if (!node.field->nullable() && column->null_count() > 0) {
      int64_t row = 0;
      while (column->IsValid(row)) ++row;
      return Status(Code::kCorruption, fmt::format("read {}: null in required column {}, row {}",
                                                   file_name_, node.path, first_row + row));
    }
    if (const auto missing = FindMissingValue(*column)) {
      return Status(Code::kCorruption,
                    fmt::format("read {}: null in required column {}.{}, row {}", file_name_,
                                node.path, missing->field, first_row + missing->row));
    }
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(wanted_, batch.num_rows(), std::move(columns));
}

}  // namespace partforge::data
