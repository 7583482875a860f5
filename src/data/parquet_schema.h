#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/field_ref.h"
#include "data/parquet_footer.h"
#include "data/scalar.h"
#include "data/thrift_compact.h"

namespace partforge::data {

using ParquetSchema = std::vector<ThriftValue>;  // SchemaElements depth first, the root first

// Which chunks of a file can stand in a target file as they are.
struct LeafMapping {
  // By target leaf: the file's leaf; -1 for a flat top-level column that the file lacks.
  std::vector<int> leaves;
  std::vector<int> missing;  // target leaves with -1
  // The path of the first column that differs too much; the mapping is empty then.
  std::optional<std::string> difference = std::nullopt;

  // The file's leaves are the target's, one by one.
  bool is_identity() const;
};

// Finds a file's columns in the target's schema. They must agree in nesting, physical type, length,
// logical type, repetition and field id; with kName in name instead, and in ids only where both
// have them. With kFieldId columns may have been renamed since the file was written. Columns and
// struct fields may stand in another order, and the file may have more of them.
Result<LeafMapping> MapParquetLeaves(const ParquetSchema& file, const ParquetSchema& target,
                                     MatchBy match, std::string_view file_name);

// Physical types of parquet.thrift.
enum class ParquetType : int8_t {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixed = 7,
};

// What is known of a leaf column: how its pages and statistics are read.
struct LeafColumn {
  std::vector<std::string> path;
  std::string dotted_path;
  ParquetType type = ParquetType::kInt32;
  int32_t fixed_length = 0;  // of kFixed
  int max_definition_level = 0;
  int max_repetition_level = 0;
  int32_t field_id = -1;
  // How a value is seen as a Scalar, in the column's own unit; none where there is no order we
  // know: INT96, intervals, half floats, unsigned 64-bit, geometry.
  std::optional<ScalarType> scalar = std::nullopt;
  bool is_unsigned = false;
  bool is_flat_top_level = false;  // no group above it but the root

  // Bytes of one PLAIN value; 0 where values differ in length, and for booleans, which are bits.
  int value_bytes() const;
};
// kCorruption for what is no schema.
Result<std::vector<LeafColumn>> LeafColumns(const ParquetSchema& schema,
                                            std::string_view file_name);

// A statistics value or a dictionary entry (PLAIN without the length of a byte array) as a Scalar.
// None when the column has no order we know, for NaN, and for bytes of a wrong length.
std::optional<Scalar> ScalarOfPlain(const LeafColumn& column, std::string_view bytes);
// PLAIN bytes of a value, without the length of a byte array: what bloom filters hash. None when
// the scalar is not of the column's type.
std::optional<std::string> PlainOfScalar(const LeafColumn& column, const Scalar& value);

}  // namespace partforge::data
