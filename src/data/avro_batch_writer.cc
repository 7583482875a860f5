#include <arrow/api.h>
#include <fmt/format.h>

#include "data/avro_batches.h"
#include "data/raw_bytes.h"
#include "data/scalar.h"

namespace partforge::data {

// Ties an Arrow column to its Avro type; the array is set for each batch.
struct AvroBatchWriter::Node {
  std::string path;
  const AvroType* type = nullptr;               // the value's, without the union
  int64_t null_branch = -1, value_branch = -1;  // of a union; -1 = no union
  std::shared_ptr<arrow::DataType> arrow_type;
  std::shared_ptr<arrow::Array> array;
  std::vector<Node> children;

  static Result<Node> Make(const arrow::Field& field, const AvroType& type,
                           const std::string& parent);
  Status Bind(const std::shared_ptr<arrow::Array>& values);
  Status Put(int64_t row, std::string& out) const;
  Status PutItems(int64_t begin, int64_t end, std::string& out) const;
  Status PutDecimal(int64_t row, std::string& out) const;
};

namespace {

using Kind = AvroKind;

// Whether values of the Arrow type are written as the Avro kind.
bool Fits(const arrow::DataType& type, const AvroType& avro) {
  switch (type.id()) {
    case arrow::Type::NA:
      return avro.kind == Kind::kNull;
    case arrow::Type::BOOL:
      return avro.kind == Kind::kBoolean;
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      return avro.kind == Kind::kInt;
    case arrow::Type::INT64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
      return avro.kind == Kind::kLong;
    case arrow::Type::FLOAT:
      return avro.kind == Kind::kFloat;
    case arrow::Type::DOUBLE:
      return avro.kind == Kind::kDouble;
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
      return avro.kind == Kind::kString;
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
      return avro.kind == Kind::kBytes;
    case arrow::Type::FIXED_SIZE_BINARY:
      return avro.kind == Kind::kFixed &&
             avro.fixed_size_bytes ==
                 static_cast<const arrow::FixedSizeBinaryType&>(type).byte_width();
    case arrow::Type::DECIMAL128:
      return avro.kind == Kind::kFixed || avro.kind == Kind::kBytes;
    case arrow::Type::STRUCT:
      return avro.kind == Kind::kRecord &&
             static_cast<size_t>(type.num_fields()) == avro.fields.size();
    case arrow::Type::LIST:
      return avro.kind == Kind::kArray;
    case arrow::Type::MAP:
      return avro.kind == Kind::kMap || avro.IsMapOfPairs();
    default:
      return false;
  }
}

template <class ArrayType>
const ArrayType& As(const std::shared_ptr<arrow::Array>& array) {
  return static_cast<const ArrayType&>(*array);
}

}  // namespace

Result<AvroBatchWriter::Node> AvroBatchWriter::Node::Make(const arrow::Field& field,
                                                          const AvroType& type,
                                                          const std::string& parent) {
  Node node;
  node.path = parent.empty() ? field.name() : parent + "." + field.name();
  node.type = &type;
  node.arrow_type = field.type();
  while (node.arrow_type->id() == arrow::Type::EXTENSION) {
    node.arrow_type = static_cast<const arrow::ExtensionType&>(*node.arrow_type).storage_type();
  }
  if (type.kind == Kind::kUnion && type.OptionalOf() != nullptr) {
    node.type = type.OptionalOf();
    node.null_branch = type.NullBranch();
    node.value_branch = 1 - node.null_branch;
  }
  if (!Fits(*node.arrow_type, *node.type)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("write Avro column {}: the schema has another type than {}",
                              node.path, field.type()->ToString()));
  }
  const auto add = [&node](const arrow::Field& child, const AvroType& child_type) -> Status {
    PF_ASSIGN(Node made, Make(child, child_type, node.path));
    node.children.push_back(std::move(made));
    return {};
  };
  switch (node.arrow_type->id()) {
    case arrow::Type::STRUCT:
      for (int i = 0; i < node.arrow_type->num_fields(); ++i) {
        PF_TRY(add(*node.arrow_type->field(i), *node.type->fields[static_cast<size_t>(i)].type));
      }
      break;
    case arrow::Type::LIST:
      PF_TRY(add(*node.arrow_type->field(0), *node.type->element));
      break;
    case arrow::Type::MAP: {
      const auto& map = static_cast<const arrow::MapType&>(*node.arrow_type);
      if (node.type->kind == Kind::kMap) {
        if (map.key_type()->id() != arrow::Type::STRING) {
          return Status(Code::kInvalidArgument,
                        fmt::format("write Avro column: keys are no strings: {}", node.path));
        }
        PF_TRY(add(*map.item_field(), *node.type->element));
      } else {
        PF_TRY(add(*map.key_field(), *node.type->element->fields[0].type));
        PF_TRY(add(*map.item_field(), *node.type->element->fields[1].type));
      }
      break;
    }
    default:
      break;
  }
  return node;
}

Status AvroBatchWriter::Node::Bind(const std::shared_ptr<arrow::Array>& values) {
  array = values;
  while (array->type_id() == arrow::Type::EXTENSION) {
    array = As<arrow::ExtensionArray>(array).storage();
  }
  if (array->type_id() != arrow_type->id()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("write Avro column {}: the batch has another type: {}", path,
                              array->type()->ToString()));
  }
  switch (array->type_id()) {
    case arrow::Type::STRUCT:
      for (size_t i = 0; i < children.size(); ++i) {
        PF_TRY(children[i].Bind(As<arrow::StructArray>(array).field(static_cast<int>(i))));
      }
      return {};
    case arrow::Type::LIST:
      return children[0].Bind(As<arrow::ListArray>(array).values());
    case arrow::Type::MAP:
      if (children.size() == 2) PF_TRY(children[0].Bind(As<arrow::MapArray>(array).keys()));
      return children.back().Bind(As<arrow::MapArray>(array).items());
    default:
      return {};
  }
}

// Items [begin, end) of a list, or entries of a map, as one block and the end mark.
Status AvroBatchWriter::Node::PutItems(int64_t begin, int64_t end, std::string& out) const {
  if (end > begin) PutAvroLong(end - begin, out);
  for (int64_t i = begin; i < end; ++i) {
    if (type->kind == Kind::kMap) {
      PutAvroBytes(
          static_cast<const arrow::StringArray&>(*As<arrow::MapArray>(array).keys()).GetView(i),
          out);
    }
    for (const Node& child : children) PF_TRY(child.Put(i, out));
  }
  PutAvroLong(0, out);
  return {};
}

Status AvroBatchWriter::Node::PutDecimal(int64_t row, std::string& out) const {
  const arrow::Decimal128 value(As<arrow::Decimal128Array>(array).GetValue(row));
  std::string bytes = ToBigEndian({.high = value.high_bits(), .low = value.low_bits()});
  if (type->kind == Kind::kBytes) {
    PutAvroBytes(bytes, out);
    return {};
  }
  const auto width = static_cast<size_t>(type->fixed_size_bytes);
  if (bytes.size() > width) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("write Avro column {}: a decimal does not fit {} bytes", path, width));
  }
  out.append(width - bytes.size(), value.high_bits() < 0 ? '\xff' : '\0');
  out += bytes;
  return {};
}

Status AvroBatchWriter::Node::Put(int64_t row, std::string& out) const {
  const bool is_null = array->IsNull(row);
  if (null_branch >= 0) {
    PutAvroLong(is_null ? null_branch : value_branch, out);
    if (is_null) return {};
  } else if (is_null && type->kind != Kind::kNull) {
    return Status(Code::kInvalidArgument,
                  fmt::format("write Avro column {}: null in a required column", path));
  }
  switch (array->type_id()) {
    case arrow::Type::NA:
      return {};
    case arrow::Type::BOOL:
      out.push_back(As<arrow::BooleanArray>(array).Value(row) ? '\x01' : '\0');
      return {};
    case arrow::Type::INT8:
      PutAvroLong(As<arrow::Int8Array>(array).Value(row), out);
      return {};
    case arrow::Type::INT16:
      PutAvroLong(As<arrow::Int16Array>(array).Value(row), out);
      return {};
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      PutAvroLong(array->data()->GetValues<int32_t>(1)[row], out);
      return {};
    case arrow::Type::INT64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
      PutAvroLong(array->data()->GetValues<int64_t>(1)[row], out);
      return {};
    case arrow::Type::FLOAT:
      AppendRaw(As<arrow::FloatArray>(array).Value(row), out);
      return {};
    case arrow::Type::DOUBLE:
      AppendRaw(As<arrow::DoubleArray>(array).Value(row), out);
      return {};
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      PutAvroBytes(As<arrow::BinaryArray>(array).GetView(row), out);
      return {};
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      PutAvroBytes(As<arrow::LargeBinaryArray>(array).GetView(row), out);
      return {};
    case arrow::Type::FIXED_SIZE_BINARY:
      out += As<arrow::FixedSizeBinaryArray>(array).GetView(row);
      return {};
    case arrow::Type::DECIMAL128:
      return PutDecimal(row, out);
    case arrow::Type::STRUCT:
      for (const Node& child : children) PF_TRY(child.Put(row, out));
      return {};
    case arrow::Type::LIST:
    case arrow::Type::MAP: {
      const auto& list = As<arrow::ListArray>(array);  // MapArray derives from it
      return PutItems(list.value_offset(row), list.value_offset(row + 1), out);
    }
    default:
      break;
  }
  return Status(Code::kInternal, fmt::format("write Avro column: no code for its type: {}", path));
}

AvroBatchWriter::AvroBatchWriter(Key, std::unique_ptr<AvroFileWriter> file)
    : file_(std::move(file)) {}
AvroBatchWriter::~AvroBatchWriter() = default;

Result<std::unique_ptr<AvroBatchWriter>> AvroBatchWriter::Open(
    const Context& ctx, const std::shared_ptr<arrow::Schema>& schema, AvroWriteOptions options,
    ByteSink& sink) {
  PF_ASSIGN(auto file, AvroFileWriter::Open(ctx, std::move(options), sink));
  auto writer = std::make_unique<AvroBatchWriter>(Key{}, std::move(file));
  const AvroType& record = writer->file_->schema().root();
  if (record.kind != Kind::kRecord ||
      record.fields.size() != static_cast<size_t>(schema->num_fields())) {
    return Status(Code::kInvalidArgument,
                  "write Avro: the schema is no record of the batch's columns");
  }
  for (int i = 0; i < schema->num_fields(); ++i) {
    PF_ASSIGN(Node node,
              Node::Make(*schema->field(i), *record.fields[static_cast<size_t>(i)].type, ""));
    writer->columns_.push_back(std::move(node));
  }
  return writer;
}

Status AvroBatchWriter::Append(const Context& ctx, const arrow::RecordBatch& batch) {
  if (static_cast<size_t>(batch.num_columns()) != columns_.size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("write Avro: the batch has {} columns, not {}", batch.num_columns(),
                              columns_.size()));
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    PF_TRY(columns_[i].Bind(batch.column(static_cast<int>(i))));
  }
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    const size_t begin = file_->buffer().size();
    for (const Node& column : columns_) {
      Status status = column.Put(row, file_->buffer());
      if (!status.ok()) {
        file_->buffer().resize(begin);
        return status;
      }
    }
    PF_TRY(file_->CommitRecord(ctx));
  }
  for (Node& column : columns_) column.array.reset();
  return {};
}

}  // namespace partforge::data
