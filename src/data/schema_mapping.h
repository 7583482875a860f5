#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/field_ref.h"

namespace arrow {
class Field;
class RecordBatch;
class Scalar;
class Schema;
}  // namespace arrow

namespace partforge::data {

// Key of the field metadata that holds a column's id, as Arrow's Parquet reader sets it. All our
// sources and sinks use it, whatever the format.
inline constexpr const char* kFieldIdKey = "PARQUET:field_id";
// The id in a field's metadata, or -1.
int32_t FieldIdOf(const arrow::Field& field);
// Whether it is the column referred to: by id where the reference has one, else by name.
bool IsField(const arrow::Field& field, const FieldRef& ref);
// The same field with the id in its metadata.
std::shared_ptr<arrow::Field> WithFieldId(const std::shared_ptr<arrow::Field>& field, int32_t id);

// A value for a column or inner field that the file lacks: a partition value or a default. It has
// the type of the field wanted, or is a struct without fields: then each field of the struct wanted
// is filled in by itself (Iceberg v3, a struct's default `{}`).
struct FillIn {
  std::string column = {};  // name of a top-level column in the wanted schema
  std::shared_ptr<arrow::Scalar> value = nullptr;
  // When not -1: the field of this id, at whatever depth (Iceberg v3, "Default values"), whether in
  // structs, lists of structs or values of maps. Then `column` is not looked at.
  int32_t field_id = -1;
};

// The id of a column of a file that has no ids (Iceberg, "Column Projection": name mapping).
struct NameId {
  std::string path;  // dotted, as in the file's own schema
  int32_t id = -1;
};

// Whether a time of day somewhere may be read as an instant, and the other way round: lakes know
// from the table which one a column holds, whatever the file says.
enum class ZonesOfTimes : uint8_t { kMustAgree, kAsWanted };
// Whether INT96, which has nanoseconds, may lose those that the unit wanted does not hold.
enum class DigitsOfTimes : uint8_t { kMustFit, kMayBeCut };
// What becomes of fields that the file lacks.
enum class AbsentFields : uint8_t { kFilled, kRefused };

struct MappingOptions {
  MatchBy match = MatchBy::kFieldId;  // a wanted field without an id is found by its name
  ZonesOfTimes zones = ZonesOfTimes::kMustAgree;
  DigitsOfTimes digits = DigitsOfTimes::kMustFit;
  AbsentFields absent = AbsentFields::kFilled;
  std::vector<FillIn> fill_ins = {};
  std::vector<NameId> name_ids = {};  // consulted when the file has no id at all
};

// How batches of a file become batches of the schema wanted: columns and inner fields are found by
// id or name, taken, promoted or filled in. Immutable.
class SchemaMapping {
 public:
  // kRefused when ids are asked for and the file has none; kInvalidArgument for a required column
  // or inner field that the file lacks and nothing fills in, and for a type that does not promote
  // to the wanted one: int to long, float to double, decimals to more digits, date to timestamp,
  // finer or coarser time units, dictionaries, binary to string and other layouts of the same
  // values. Fields of one name or id are taken in their order.
  static Result<SchemaMapping> Make(const std::shared_ptr<arrow::Schema>& file,
                                    const std::shared_ptr<arrow::Schema>& wanted,
                                    const MappingOptions& options, std::string file_name);

  const std::shared_ptr<arrow::Schema>& wanted() const { return wanted_; }
  // Leaf columns of the file to read, ascending; counted depth first as Parquet does. A struct of
  // which only absent fields are wanted is read by its first leaf, for the sake of its nulls.
  const std::vector<int>& leaves() const { return leaves_; }
  // Leaf of the file for a flat top-level column wanted, when it is read without a change that
  // could disturb the order of its values; none otherwise. For pruning.
  std::optional<int> LeafOf(const FieldRef& column) const;
  // The same for a flat top-level timestamp, in whatever unit the file has it.
  std::optional<int> TimestampLeafOf(const FieldRef& column) const;

  // `batch` has the columns of leaves() only, in file order; `first_row` is for messages. A value
  // that does not fit, or a null in a required column or inner field, is kCorruption with file,
  // column and row.
  Result<std::shared_ptr<arrow::RecordBatch>> Apply(const arrow::RecordBatch& batch,
                                                    int64_t first_row, ArrowMemory& memory) const;

 private:
  struct Node;
  class Builder;
  class Applier;
  SchemaMapping() = default;
  const Node* NodeOf(const FieldRef& column) const;  // of the column wanted; may be null

  std::shared_ptr<arrow::Schema> wanted_;
  std::string file_name_;
  std::vector<int> leaves_;
  std::shared_ptr<const std::vector<Node>> columns_;
};

// How many leaf columns a field has, counted as Parquet does.
int LeafCount(const arrow::Field& field);

}  // namespace partforge::data
