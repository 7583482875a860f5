#include <arrow/api.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "data/arrow_edge.h"
#include "data/avro_batches.h"
#include "data/scalar.h"
#include "data/schema_mapping.h"

namespace partforge::data {

namespace {

// A node of the program: one file type, and the builder of the column it fills. A null builder: the
// datum is passed over.
struct Column {
  const AvroType* type = nullptr;
  arrow::ArrayBuilder* builder = nullptr;
  int null_branch = -1;   // of a union of null and one type
  bool is_union = false;  // a branch index stands before the value
  std::vector<Column> children;
};

// Cuts a schema down to the leaves chosen.
class Pruner {
 public:
  explicit Pruner(const std::vector<int>& leaves) : leaves_(leaves) {}

  std::shared_ptr<arrow::Field> Field(const std::shared_ptr<arrow::Field>& field) {
    const arrow::DataType& type = *field->type();
    const int begin = next_leaf_;
    const int end = begin + LeafCount(*field);
    const auto first = std::lower_bound(leaves_.begin(), leaves_.end(), begin);
    const bool is_chosen = first != leaves_.end() && *first < end;
    if (!is_chosen || type.num_fields() == 0 || type.id() == arrow::Type::MAP) {
      next_leaf_ = end;
      return is_chosen ? field : nullptr;
    }
    arrow::FieldVector fields;
    for (const auto& child : type.fields()) {
      if (auto pruned = Field(child)) fields.push_back(std::move(pruned));
    }
    if (type.id() == arrow::Type::LIST) return field->WithType(arrow::list(fields[0]));
    return field->WithType(arrow::struct_(fields));
  }

 private:
  const std::vector<int>& leaves_;
  int next_leaf_ = 0;
};

}  // namespace

struct AvroBatchReader::Plan {
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders;
  std::vector<Column> columns;  // all fields of the record, in file order
  bool has_root_union = false;
  int root_null_branch = -1;
};

namespace {

// Ties file types to builders, walking over leaves as Pruner does.
class PlanMaker {
 public:
  // `leaves` that were chosen; null: all.
  explicit PlanMaker(const std::vector<int>* leaves) : leaves_(leaves) {}

  // Matches a record's fields with pruned Arrow fields, which are a subsequence of them. Names say
  // nothing: those of a foreign schema need not differ.
  std::vector<Column> Fields(const AvroType& record, const arrow::FieldVector& all,
                             const arrow::FieldVector& kept,
                             const std::function<arrow::ArrayBuilder*(int)>& builder_of) {
    std::vector<Column> columns;
    size_t next = 0;
    for (size_t i = 0; i < record.fields.size(); ++i) {
      const AvroType& type = *record.fields[i].type;
      const int end = next_leaf_ + LeafCount(*all[i]);
      if (IsChosen(end)) {
        columns.push_back(Of(type, *all[i], *kept[next], builder_of(static_cast<int>(next))));
        ++next;
      } else {
        Column skipped;
        skipped.type = &type;
        columns.push_back(std::move(skipped));
      }
      next_leaf_ = end;
    }
    return columns;
  }

 private:
  // Whether a leaf from the next one up to `end` is wanted.
  bool IsChosen(int end) const {
    if (leaves_ == nullptr) return true;
    const auto first = std::lower_bound(leaves_->begin(), leaves_->end(), next_leaf_);
    return first != leaves_->end() && *first < end;
  }

  Column Of(const AvroType& type, const arrow::Field& all, const arrow::Field& kept,
            arrow::ArrayBuilder* builder) {
    Column column;
    column.builder = builder;
    column.type = &type;
    if (type.kind == AvroKind::kUnion) {
      column.is_union = true;
      column.null_branch = type.NullBranch();
      column.type = type.branches.size() == 1 ? type.branches[0] : type.OptionalOf();
    }
    const AvroType& value = *column.type;
    switch (kept.type()->id()) {
      case arrow::Type::STRUCT: {
        auto* fields = static_cast<arrow::StructBuilder*>(builder);
        column.children = Fields(value, all.type()->fields(), kept.type()->fields(),
                                 [&](int i) { return fields->field_builder(i); });
        break;
      }
      case arrow::Type::LIST: {
        auto* list = static_cast<arrow::ListBuilder*>(builder);
        column.children.push_back(Of(*value.element, *all.type()->field(0), *kept.type()->field(0),
                                     list->value_builder()));
        break;
      }
      case arrow::Type::MAP: {
        auto* map = static_cast<arrow::MapBuilder*>(builder);
        const auto& type_of = static_cast<const arrow::MapType&>(*kept.type());
        if (value.kind == AvroKind::kArray) {
          const auto& pair = value.element->fields;
          column.children.push_back(
              Of(*pair[0].type, *type_of.key_field(), *type_of.key_field(), map->key_builder()));
          column.children.push_back(
              Of(*pair[1].type, *type_of.item_field(), *type_of.item_field(), map->item_builder()));
        } else {
          column.children.push_back(Of(*value.element, *type_of.item_field(), *type_of.item_field(),
                                       map->item_builder()));
        }
        break;
      }
      default:
        break;
    }
    return column;
  }

  const std::vector<int>* const leaves_;
  int next_leaf_ = 0;
};

template <class Builder>
Builder& As(const Column& column) {
  return *static_cast<Builder*>(column.builder);
}

arrow::Status Append(const Column& column, AvroCursor& cursor);

arrow::Status AppendDecimal(const Column& column, std::string_view bytes, AvroCursor& cursor) {
  // A fixed type wider than 16 bytes is legal as long as it only repeats the sign.
  while (bytes.size() > 16 && (bytes[0] == '\0' || bytes[0] == '\xff') &&
         ((bytes[0] ^ bytes[1]) & 0x80) == 0) {
    bytes.remove_prefix(1);
  }
  const auto value = FromBigEndian(std::as_bytes(std::span(bytes)), "decimal");
  if (!value.ok()) {
    cursor.Fail("a decimal that is not of 1 to 16 bytes");
    return arrow::Status::OK();
  }
  const auto& type = static_cast<const arrow::Decimal128Type&>(*column.builder->type());
  const arrow::Decimal128 decimal(value->high, value->low);
  if (!decimal.FitsInPrecision(type.precision())) cursor.Fail("a decimal of too many digits");
  return As<arrow::Decimal128Builder>(column).Append(decimal);
}

template <class Item>
arrow::Status Items(const AvroType& element, int64_t bytes_min, AvroCursor& cursor, Item item) {
  arrow::Status status;
  cursor.ForItems(element, bytes_min, [&] {
    if (status.ok()) status = item();
    if (!status.ok()) cursor.Fail("memory ran out");
  });
  return status;
}

arrow::Status AppendInt(const Column& column, AvroCursor& cursor) {
  const int32_t value = cursor.Int();
  switch (column.builder->type()->id()) {
    case arrow::Type::DATE32:
      return As<arrow::Date32Builder>(column).Append(value);
    case arrow::Type::TIME32:
      return As<arrow::Time32Builder>(column).Append(value);
    default:
      return As<arrow::Int32Builder>(column).Append(value);
  }
}

arrow::Status AppendLong(const Column& column, AvroCursor& cursor) {
  const int64_t value = cursor.Long();
  switch (column.builder->type()->id()) {
    case arrow::Type::TIMESTAMP:
      return As<arrow::TimestampBuilder>(column).Append(value);
    case arrow::Type::TIME64:
      return As<arrow::Time64Builder>(column).Append(value);
    default:
      return As<arrow::Int64Builder>(column).Append(value);
  }
}

// Text and bytes of a batch stay below what 32-bit offsets can address.
arrow::Status AppendBytes(const Column& column, AvroCursor& cursor) {
  const std::string_view bytes = cursor.Bytes();
  if (column.builder->type()->id() == arrow::Type::DECIMAL128) {
    return AppendDecimal(column, bytes, cursor);
  }
  return As<arrow::BinaryBuilder>(column).Append(bytes);
}

arrow::Status AppendArray(const Column& column, AvroCursor& cursor) {
  const AvroType& element = *column.type->element;
  if (column.builder->type()->id() == arrow::Type::MAP) {
    ARROW_RETURN_NOT_OK(As<arrow::MapBuilder>(column).Append());
    return Items(element, element.size_bytes_min, cursor, [&] {
      ARROW_RETURN_NOT_OK(Append(column.children[0], cursor));
      return Append(column.children[1], cursor);
    });
  }
  ARROW_RETURN_NOT_OK(As<arrow::ListBuilder>(column).Append());
  return Items(element, element.size_bytes_min, cursor,
               [&] { return Append(column.children[0], cursor); });
}

arrow::Status AppendMap(const Column& column, AvroCursor& cursor) {
  auto& builder = As<arrow::MapBuilder>(column);
  ARROW_RETURN_NOT_OK(builder.Append());
  const AvroType& element = *column.type->element;
  return Items(element, element.size_bytes_min + 1, cursor, [&] {
    ARROW_RETURN_NOT_OK(
        static_cast<arrow::StringBuilder*>(builder.key_builder())->Append(cursor.Bytes()));
    return Append(column.children[0], cursor);
  });
}

arrow::Status Append(const Column& column, AvroCursor& cursor) {
  if (column.builder == nullptr) {
    cursor.Skip(*column.type);  // the union itself, where there is one
    return arrow::Status::OK();
  }
  if (column.is_union) {
    const auto branch = static_cast<int>(cursor.Index(column.null_branch < 0 ? 1 : 2));
    if (branch == column.null_branch) return column.builder->AppendNull();
  }
  // Only decoded values may reach a builder; after a failure the batch is thrown away.
  if (!cursor.ok()) return arrow::Status::OK();
  const AvroType& type = *column.type;
  switch (type.kind) {
    case AvroKind::kNull:
      return column.builder->AppendNull();
    case AvroKind::kBoolean:
      return As<arrow::BooleanBuilder>(column).Append(cursor.Boolean());
    case AvroKind::kInt:
      return AppendInt(column, cursor);
    case AvroKind::kLong:
      return AppendLong(column, cursor);
    case AvroKind::kFloat:
      return As<arrow::FloatBuilder>(column).Append(cursor.Float());
    case AvroKind::kDouble:
      return As<arrow::DoubleBuilder>(column).Append(cursor.Double());
    case AvroKind::kBytes:
    case AvroKind::kString:
      return AppendBytes(column, cursor);
    case AvroKind::kFixed: {
      const std::string_view bytes = cursor.Fixed(static_cast<uint64_t>(type.fixed_size_bytes));
      if (!cursor.ok()) return arrow::Status::OK();
      if (column.builder->type()->id() == arrow::Type::DECIMAL128) {
        return AppendDecimal(column, bytes, cursor);
      }
      return As<arrow::FixedSizeBinaryBuilder>(column).Append(bytes);
    }
    case AvroKind::kEnum:
      return As<arrow::StringBuilder>(column).Append(
          type.symbols[cursor.Index(type.symbols.size())]);
    case AvroKind::kRecord:
      ARROW_RETURN_NOT_OK(As<arrow::StructBuilder>(column).Append());
      for (const Column& child : column.children) ARROW_RETURN_NOT_OK(Append(child, cursor));
      return arrow::Status::OK();
    case AvroKind::kArray:
      return AppendArray(column, cursor);
    case AvroKind::kMap:
      return AppendMap(column, cursor);
    case AvroKind::kUnion:
      break;
  }
  cursor.Fail("a union in a union");
  return arrow::Status::OK();
}

}  // namespace

AvroBatchReader::AvroBatchReader(Key, std::unique_ptr<AvroFileReader> file, arrow::MemoryPool& pool)
    : file_(std::move(file)), pool_(pool) {}
AvroBatchReader::~AvroBatchReader() = default;

Result<std::unique_ptr<AvroBatchReader>> AvroBatchReader::Open(const Context& ctx,
                                                               ByteSource& source,
                                                               std::string file_name,
                                                               AvroTimestamps timestamps,
                                                               arrow::MemoryPool& pool) {
  PF_ASSIGN(auto file, AvroFileReader::Open(ctx, source, std::move(file_name)));
  const AvroType* record = file->header().schema.RootRecord();
  if (record == nullptr) {
    return Status(Code::kCorruption,
                  fmt::format("read Avro file {}: the root is no record", file->file_name()));
  }
  auto reader = std::make_unique<AvroBatchReader>(Key{}, std::move(file), pool);
  PF_ASSIGN(reader->file_schema_, ArrowSchemaOf(*record, timestamps));
  PF_TRY(reader->Select(std::nullopt));
  return reader;
}

Status AvroBatchReader::Select(const std::optional<std::vector<int>>& leaves) {
  PF_CHECK(!block_, "columns are chosen after the first batch");
  arrow::FieldVector kept = file_schema_->fields();
  if (leaves) {
    Pruner pruner(*leaves);
    kept.clear();
    for (const auto& field : file_schema_->fields()) {
      if (auto pruned = pruner.Field(field)) kept.push_back(std::move(pruned));
    }
  }
  auto plan = std::make_unique<Plan>();
  for (const auto& field : kept) {
    auto builder = arrow::MakeBuilder(field->type(), &pool_);
    if (!builder.ok()) return FromArrow(builder.status());
    plan->builders.push_back(std::move(builder).ValueUnsafe());
  }
  const AvroSchema& schema = file_->header().schema;
  plan->columns = PlanMaker(leaves ? &*leaves : nullptr)
                      .Fields(*schema.RootRecord(), file_schema_->fields(), kept,
                              [&](int i) { return plan->builders[static_cast<size_t>(i)].get(); });
  plan->has_root_union = schema.root().kind == AvroKind::kUnion;
  plan->root_null_branch = schema.root().NullBranch();
  plan_ = std::move(plan);
  schema_ = arrow::schema(std::move(kept));
  return {};
}

Result<std::shared_ptr<arrow::RecordBatch>> AvroBatchReader::Next(const Context& ctx,
                                                                  int64_t rows_max,
                                                                  int64_t bytes_max) {
  int64_t rows = 0;
  int64_t bytes = 0;
  while (rows < rows_max && bytes < bytes_max) {
    if (records_left_ == 0) {
      if (block_) PF_TRY(file_->CheckBlockEnd(*block_, *cursor_));
      PF_ASSIGN(block_, file_->NextBlock(ctx));
      if (!block_) break;
      records_left_ = block_->record_count;
      cursor_.emplace(file_->CursorOf(*block_));
      continue;
    }
    const size_t begin = cursor_->position();
    --records_left_;
    if (plan_->has_root_union && static_cast<int>(cursor_->Index(2)) == plan_->root_null_branch) {
      if (!cursor_->ok()) return file_->CheckBlockEnd(*block_, *cursor_);
      continue;  // a null datum is no row
    }
    for (const Column& column : plan_->columns) {
      if (const arrow::Status status = Append(column, *cursor_); !status.ok()) {
        return FromArrow(status);
      }
    }
    if (!cursor_->ok()) return file_->CheckBlockEnd(*block_, *cursor_);
    bytes += static_cast<int64_t>(cursor_->position() - begin);
    ++rows;
  }
  if (rows == 0) return std::shared_ptr<arrow::RecordBatch>();
  arrow::ArrayVector arrays;
  for (const auto& builder : plan_->builders) {
    auto array = builder->Finish();
    if (!array.ok()) return FromArrow(array.status());
    arrays.push_back(std::move(array).ValueUnsafe());
  }
  return arrow::RecordBatch::Make(schema_, rows, std::move(arrays));
}

}  // namespace partforge::data
