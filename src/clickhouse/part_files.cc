#include "clickhouse/part_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "clickhouse/manifest.h"
#include "clickhouse/part_verifier.h"
#include "clickhouse/sip_hash.h"
#include "engine/sql_text.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kMetadataBytesMax = int64_t{256} << 20;
// Columns that ClickHouse keeps in parts beside those of the table.
constexpr std::string_view kRowExists = "_row_exists";
constexpr std::string_view kHiddenColumns[] = {kRowExists, "_block_number", "_block_offset"};

Status Incomplete(const std::string& part, std::string message) {
  return Status(Code::kCorruption, std::move(message))
      .Explain(2140, part, "the copy of the part is incomplete; freeze the table again");
}

Result<int64_t> ParseNonNegative(std::string_view text, std::string_view file) {
  // A number, and at most one line end after it.
  if (text.ends_with('\n')) text.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return Status(Code::kCorruption, fmt::format("{}: not a count: {}", file, text.substr(0, 100)))
        .Explain(8003, std::string(file), "the part is damaged: take it from the server again");
  }
  return value;
}

// The metadata files of one directory, read as they are asked for.
class PartFolder {
 public:
  PartFolder(const std::filesystem::path& directory, const std::vector<FileEntry>& files)
      : directory_(directory) {
    for (const FileEntry& file : files) {
      if (!file.is_directory) sizes_.emplace(file.relative_path, file.size_bytes);
    }
  }

  bool Has(std::string_view name) const { return sizes_.contains(name); }
  Result<std::string> Required(std::string_view name) const {
    const auto found = sizes_.find(name);
    if (found == sizes_.end()) {
      return Incomplete(directory_.string(), fmt::format("file of the part is missing: {}", name));
    }
    if (found->second == 0) {
      return Incomplete(directory_.string(), fmt::format("file of the part is empty: {}", name));
    }
    return ReadFile(directory_ / name, kMetadataBytesMax);
  }
  // "" when absent.
  Result<std::string> Optional(std::string_view name) const {
    if (!Has(name)) return std::string();
    return ReadFile(directory_ / name, kMetadataBytesMax);
  }

 private:
  const std::filesystem::path& directory_;
  std::map<std::string, int64_t, std::less<>> sizes_;
};

bool IsCompact(const PartChecksums& checksums) {
  // A wide part may have a column named "data", but only compact parts have marks of these kinds.
  return std::any_of(checksums.files.begin(), checksums.files.end(), [](const FileChecksum& file) {
    return file.name == "data.mrk3" || file.name == "data.cmrk3" || file.name == "data.mrk4" ||
           file.name == "data.cmrk4";
  });
}

void CountDataBytes(PartInfo& part) {
  for (const FileChecksum& file : part.checksums.files) {
    if (!file.name.ends_with(".bin") || !file.is_compressed) continue;
    part.data_compressed_bytes += file.size_bytes;
    part.data_uncompressed_bytes += file.uncompressed_size_bytes;
  }
}

Status CheckStreams(const PartInfo& part, const std::vector<ColumnSubstreams>& columns) {
  for (const ColumnSubstreams& column : columns) {
    for (const std::string& stream : column.streams) {
      const bool is_listed = part.checksums.Find(stream + ".bin") != nullptr ||
                             part.checksums.Find(HashedFileStem(stream) + ".bin") != nullptr;
      if (!is_listed) {
        return Incomplete(part.name, fmt::format("stream of column {} is not in checksums.txt: {}",
                                                 column.column, stream));
      }
    }
  }
  return {};
}

Status ReadLists(const PartFolder& folder, PartInfo& part) {
  PF_ASSIGN(const std::string checksums, folder.Required(kChecksumsFile));
  PF_ASSIGN(part.checksums, ParseChecksums(checksums));
  part.checksums_txt_sha256 = Sha256Hex(checksums);
  part.bytes_on_disk = part.checksums.total_size_bytes();
  part.layout = IsCompact(part.checksums) ? PartLayout::kCompact : PartLayout::kWide;
  CountDataBytes(part);
  for (const FileChecksum& file : part.checksums.files) {
    if (file.name.ends_with(".proj")) {
      part.projections.push_back(file.name.substr(0, file.name.size() - 5));
    }
  }

  PF_ASSIGN(const std::string columns, folder.Required("columns.txt"));
  PF_ASSIGN(part.columns, ParseColumnsTxt(columns));
  part.has_lightweight_delete = HasDeleteMask(part.columns);
  PF_ASSIGN(const std::string count, folder.Required("count.txt"));
  PF_ASSIGN(part.rows, ParseCountTxt(count));
  return {};
}

Status ReadExtras(const PartFolder& folder, PartInfo& part) {
  part.has_partition_file = folder.Has("partition.dat");
  part.has_ttl_file = folder.Has("ttl.txt");
  PF_ASSIGN(part.default_codec, folder.Optional("default_compression_codec.txt"));
  PF_ASSIGN(const std::string metadata_version, folder.Optional("metadata_version.txt"));
  if (folder.Has("metadata_version.txt")) {
    PF_ASSIGN(part.metadata_version, ParseMetadataVersion(metadata_version));
  }
  if (folder.Has("serialization.json")) {
    PF_ASSIGN(const std::string serialization, folder.Required("serialization.json"));
    PF_ASSIGN(part.sparse_columns, ParseSparseColumns(serialization));
  }
  PF_ASSIGN(const std::string substreams, folder.Optional("columns_substreams.txt"));
  if (!folder.Has("columns_substreams.txt")) return {};
  PF_ASSIGN(const std::vector<ColumnSubstreams> columns, ParseColumnsSubstreams(substreams));
  // In a compact part every stream lies in data.bin.
  if (part.layout == PartLayout::kCompact) return {};
  return CheckStreams(part, columns);
}

// The type without white space outside of quotes: "Decimal(10, 2)" and "Decimal(10,2)" are one.
std::string SqueezedType(std::string_view type) {
  const Result<std::vector<SqlToken>> tokens = TokenizeSql(type);
  if (!tokens.ok()) return std::string(type);
  std::string squeezed;
  for (const SqlToken& token : *tokens) {
    if (!squeezed.empty() && token.IsName()) squeezed += ' ';
    squeezed += token.text;
  }
  // An empty tuple has two spellings.
  constexpr std::string_view kEmptyTuple = "Tuple()";
  for (size_t at = squeezed.find(kEmptyTuple); at != std::string::npos;
       at = squeezed.find(kEmptyTuple, at)) {
    squeezed.erase(at + kEmptyTuple.size() - 2, 2);
  }
  return squeezed;
}

}  // namespace

bool HasDeleteMask(const std::vector<PartColumn>& columns) {
  return std::any_of(columns.begin(), columns.end(),
                     [](const PartColumn& column) { return column.name == kRowExists; });
}

Result<int64_t> ParseCountTxt(std::string_view text) {
  return ParseNonNegative(text, "count.txt");
}

Result<std::vector<std::string>> ParseSparseColumns(std::string_view json) {
  const auto malformed = [](const Status& status) {
    return Status(status)
        .With("read serialization.json")
        .Explain(8003, "serialization.json", "the part is damaged: take it from the server again");
  };
  const Result<JsonDoc> doc = ParseJson(json);
  if (!doc.ok()) return malformed(doc.status());
  JsonReader reader(*doc, "serialization.json");
  const Result<const JsonDoc*> columns = reader.Array("columns");
  if (!columns.ok()) return malformed(columns.status());
  std::vector<std::string> sparse;
  for (const JsonDoc& item : **columns) {
    JsonReader column(item, "serialization.json: columns");
    const Result<std::string> name = column.String("name");
    if (!name.ok()) return malformed(name.status());
    const Result<std::string> kind = column.StringOr("kind", "Default");
    if (!kind.ok()) return malformed(kind.status());
    if (*kind == "Sparse") sparse.push_back(*name);
  }
  return sparse;
}

Result<int64_t> ParseMetadataVersion(std::string_view text) {
  return ParseNonNegative(text, "metadata_version.txt");
}

Result<PartInfo> ReadPart(const Context& ctx, const std::filesystem::path& directory) {
  PartInfo part;
  part.name = directory.filename().string();
  PF_ASSIGN(part.files, ListTree(directory));
  // The reference leaves its manifest in the frozen directory; it is not of the part.
  std::erase_if(part.files,
                [](const FileEntry& file) { return file.relative_path == kManifestFile; });
  for (const FileEntry& file : part.files) part.size_bytes += file.size_bytes;
  const PartFolder folder(directory, part.files);
  PF_TRY(ReadLists(folder, part));
  PF_TRY(ReadExtras(folder, part));
  PF_TRY(VerifyPartDirectory(ctx, directory, VerifyLevel::kSizes));
  return part;
}

Result<std::vector<std::string>> CheckPartColumns(const PartInfo& part,
                                                  const std::vector<PartColumn>& table,
                                                  std::string_view table_name) {
  const auto refuse = [&](std::string message) {
    return Status(Code::kCorruption, std::move(message))
        .Explain(2147, fmt::format("{}, part {}", table_name, part.name),
                 "the table was altered between two freezes; freeze it again and make a new job");
  };
  std::map<std::string_view, std::string_view> declared;
  for (const PartColumn& column : table) declared.emplace(column.name, column.type);
  std::set<std::string_view> held;
  for (const PartColumn& column : part.columns) {
    held.insert(column.name);
    const bool is_hidden = std::find(std::begin(kHiddenColumns), std::end(kHiddenColumns),
                                     column.name) != std::end(kHiddenColumns);
    if (is_hidden) continue;
    const auto found = declared.find(column.name);
    if (found == declared.end()) {
      return refuse(fmt::format("the part has a column that the table lacks: {} {}", column.name,
                                column.type));
    }
    if (SqueezedType(found->second) != SqueezedType(column.type)) {
      return refuse(fmt::format("column {} is {} in the part and in the table {}", column.name,
                                column.type, found->second));
    }
  }
  std::vector<std::string> absent;
  for (const PartColumn& column : table) {
    if (!held.contains(column.name)) absent.push_back(column.name);
  }
  return absent;
}

}  // namespace partforge::clickhouse
