#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/column_metrics.h"
#include "data/puffin.h"
#include "data/scalar.h"
#include "store/object_store.h"

namespace partforge::data {

// What `partforge file inspect` shows of a data file, as values that a command renders.

enum class FileFormat : uint8_t { kParquet, kOrc, kAvro, kPuffin };
std::string_view FormatName(FileFormat format);  // "parquet", "orc", "avro", "puffin"
// By the first bytes of the object. kRefused when they are of no format we read.
Result<FileFormat> DetectFormat(const Context& ctx, ByteSource& source, std::string_view file_name);

struct ColumnReport {
  std::string path;
  int32_t field_id = -1;
  std::string type;  // "int64", "decimal(18,4)", …
  bool is_required = false;
  std::vector<std::pair<std::string, std::string>> attributes = {};  // of ORC's type
  // Parquet and ORC.
  int64_t compressed_bytes = 0;
  std::vector<std::string> encodings = {};
  std::optional<ColumnMetrics> metrics = std::nullopt;
  // ORC: values that are not null, and whether there is a null; known below lists too.
  std::optional<int64_t> present_count = std::nullopt;
  std::optional<bool> has_null = std::nullopt;
  // Parquet only.
  std::string physical_type = {};
  int64_t uncompressed_bytes = 0;
  std::vector<std::string> codecs = {};
  int64_t dictionary_chunks = 0;
  bool has_page_index = false;  // in every row group
  int64_t bloom_filter_chunks = 0;
};

// A data page, as the page index has it.
struct PageReport {
  int64_t offset = 0, stored_bytes = 0;
  int64_t first_row = 0, row_count = 0;  // in the row group
  bool has_bounds = false;               // the file has a column index too
  bool is_null_page = false;
  std::optional<int64_t> null_count = std::nullopt;
  std::optional<Scalar> lower = std::nullopt, upper = std::nullopt;  // may be cut
};

// One column of one row group or stripe.
struct ChunkReport {
  int64_t compressed_bytes = 0;
  std::vector<std::string> encodings;
  std::optional<ColumnMetrics> metrics = std::nullopt;
  // ORC only, as of ColumnReport.
  std::optional<int64_t> present_count = std::nullopt;
  std::optional<bool> has_null = std::nullopt;
  // Parquet only.
  int64_t offset = 0;
  int64_t uncompressed_bytes = 0;
  int64_t value_count = 0;  // nulls included
  std::string codec;
  bool has_dictionary = false, has_bloom_filter = false;
  bool has_offset_index = false, has_column_index = false;
  std::vector<PageReport> pages = {};  // kPages only
};

// A row group, stripe or blob; blocks of Avro are counted only.
struct GroupReport {
  int64_t row_count = 0;
  int64_t offset = 0;
  int64_t compressed_bytes = 0, uncompressed_bytes = 0;
  std::vector<ChunkReport> chunks = {};  // by column of the report
  // ORC only.
  int64_t index_bytes = 0, data_bytes = 0, footer_bytes = 0;
  std::string writer_timezone = {};
  std::optional<PuffinBlob> blob = std::nullopt;
  std::optional<int64_t> position_count = std::nullopt;  // of a deletion vector; kDecode only
};

struct FileReport {
  std::string file_name;
  FileFormat format = FileFormat::kParquet;
  int64_t size_bytes = 0;
  std::optional<int64_t> row_count;
  std::string written_by;
  std::string codec;                                            // of the file, where it has one
  std::vector<std::pair<std::string, std::string>> properties;  // in file order
  // Leaves of Parquet; of ORC and Avro all fields, each before those inside of it.
  std::vector<ColumnReport> columns;
  std::vector<GroupReport> groups;
  int64_t footer_bytes = 0;  // Parquet, Puffin, ORC (its whole tail)
  int64_t block_count = 0;   // Avro
  std::string schema_text;   // Avro: the JSON
};

// Adds a path to those reported so far. kCorruption when they take more than 16 MiB together, with
// the names around each: a hostile file could make them as long as it likes.
Status CountPath(std::string_view path, size_t& path_bytes);

enum class Inspection : uint8_t {
  kFooter,  // metadata alone; Avro: the blocks are walked over, since nothing else counts rows
  kPages,   // and the page indexes of Parquet
  kDecode,  // reads every row and blob too, and compares counts with the footer's
};

// kCorruption and kRefused as the readers say.
Result<FileReport> InspectFile(const Context& ctx, ByteSource& source, std::string file_name,
                               Inspection inspection, ArrowMemory& memory);

}  // namespace partforge::data
