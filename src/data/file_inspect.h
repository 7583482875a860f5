#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"
#include "data/arrow_edge.h"
#include "data/column_metrics.h"
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
  // Parquet only.
  std::string physical_type = {};
  int64_t compressed_bytes = 0, uncompressed_bytes = 0;
  std::vector<std::string> codecs = {}, encodings = {};
  int64_t dictionary_chunks = 0;
  bool has_page_index = false;  // in every row group
  int64_t bloom_filter_chunks = 0;
  std::optional<ColumnMetrics> metrics = std::nullopt;
};

// A row group, stripe or blob; blocks of Avro are counted only.
struct GroupReport {
  int64_t row_count = 0;
  int64_t offset = 0;
  int64_t compressed_bytes = 0, uncompressed_bytes = 0;
  std::string type = {};  // Puffin: of the blob
};

struct FileReport {
  std::string file_name;
  FileFormat format = FileFormat::kParquet;
  int64_t size_bytes = 0;
  std::optional<int64_t> row_count;
  std::string written_by;
  std::string codec;                                            // of the file, where it has one
  std::vector<std::pair<std::string, std::string>> properties;  // in file order
  std::vector<ColumnReport> columns;                            // leaves of Parquet, else fields
  std::vector<GroupReport> groups;
  int64_t footer_bytes = 0;  // Parquet, Puffin
  int64_t block_count = 0;   // Avro
  std::string schema_text;   // Avro: the JSON
};

enum class Inspection : uint8_t {
  kFooter,  // metadata alone; Avro: the blocks are walked over, since nothing else counts rows
  kDecode,  // reads every row too, and compares counts with the footer's
};

// kCorruption and kRefused as the readers say.
Result<FileReport> InspectFile(const Context& ctx, ByteSource& source, std::string file_name,
                               Inspection inspection, ArrowMemory& memory);

}  // namespace partforge::data
