#include "data/file_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "data/borrowed_source.h"
#include "data/chunk_pages.h"
#include "data/page_check.h"
#include "data/parquet_source.h"
#include "data/read_ahead.h"
#include "data/row_compare.h"
#include "data/row_origins.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

constexpr int kGroupsPerSample = 64;
// Sampled pages lie far from each other, and what is between them is not wanted.
constexpr int64_t kHoleBytesMax = int64_t{64} << 10;
// Rows of a page that lie in more row groups of the inputs are compared as far as these go.
constexpr size_t kPiecesMax = 16;

constexpr std::array kModes = {std::pair(VerifyMode::kNone, std::string_view("none")),
                               std::pair(VerifyMode::kSample, std::string_view("sample")),
                               std::pair(VerifyMode::kFull, std::string_view("full"))};

// A hash over levels and values of rows of one column, however they lie in pages.
class RowsDigest {
 public:
  // Adds those rows of the page that lie in the runs, which ascend; both counted from the same row,
  // of which the page begins `first_row` behind.
  void Add(const LeafColumn& column, const DecodedPage& page, const DictionaryValues* dictionary,
           int64_t first_row, const std::vector<RowRun>& runs) {
    PageValues values(column, page, dictionary);
    const auto max_level = static_cast<uint32_t>(column.max_definition_level);
    auto run = runs.begin();
    auto row = static_cast<uint64_t>(first_row) - 1;  // before the first
    for (size_t i = 0; i < static_cast<size_t>(page.header.num_values); ++i) {
      const uint32_t repetition = page.repetition_levels.empty() ? 0 : page.repetition_levels[i];
      const uint32_t definition =
          page.definition_levels.empty() ? max_level : page.definition_levels[i];
      const std::string_view value = definition == max_level ? values.Next() : std::string_view();
      if (repetition == 0) ++row;
      while (run != runs.end() && run->end <= row) ++run;
      if (run == runs.end()) return;
      if (row >= run->begin) Add(repetition, definition, value);
    }
  }

  bool operator==(const RowsDigest&) const = default;

 private:
  void Add(uint32_t repetition, uint32_t definition, std::string_view value) {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
    state_ = XxHash64(AsBytes(value), state_ * kOdd + (uint64_t{repetition} << 32 | definition));
  }
  uint64_t state_ = 0;
};

// Pages of the inputs that rows of the outputs come from.
class OriginPages {
 public:
  OriginPages(const VerifiedRewrite& rewrite, ArrowMemory& memory)
      : rewrite_(rewrite), memory_(memory), rows_(rewrite.inputs), leaves_(rewrite.inputs.size()) {}

  int64_t row_count() const { return rows_.row_count(); }

  // Calls with each page that holds some of the rows of a target leaf, decoded, and those rows of
  // its row group. False, and maybe not all calls, when that cannot be done page by page: a column
  // of another type, rows that no index finds, pages that only the library reads. `rows_found` are
  // those that were looked at.
  struct Found {
    ChunkPages& pages;
    const ThriftValue& chunk;
    BoundOrder order;
    size_t number;
    int64_t first_row;
    const DecodedPage& page;
    const std::vector<RowRun>& rows;
  };
  template <class Take>
  Result<bool> ForEach(const Context& ctx, int leaf, int64_t begin, int64_t count,
                       int64_t& rows_found, Take take) {
    rows_found = 0;
    for (const RowOrigins::Piece& piece : rows_.Find(begin, count, kPiecesMax)) {
      const ParquetInput& file = *rewrite_.inputs[piece.group.input].file;
      PF_ASSIGN(const int own, LeafOf(piece.group.input, leaf));
      if (own < 0) return false;
      const ThriftValue& chunk = file.footer.chunk(piece.group.row_group, own);
      const LeafColumn& column = file.columns[static_cast<size_t>(own)];
      PF_ASSIGN(const ChunkView view, ViewChunk(chunk, file.file_name));
      PF_ASSIGN(
          ChunkPages pages,
          ChunkPages::Open(ctx, *file.source, view, column, file.RowCount(piece.group.row_group),
                           fmt::format("column {} of {}, row group {}", column.dotted_path,
                                       file.file_name, piece.group.row_group),
                           memory_));
      PF_ASSIGN(const std::vector<PageSpot> spots, pages.Find(ctx));
      for (size_t i = 0; i < spots.size(); ++i) {
        if (!spots[i].first_row) return false;
        const auto first = static_cast<uint64_t>(*spots[i].first_row);
        const uint64_t end = first + static_cast<uint64_t>(*spots[i].row_count);
        if (end <= piece.rows.front().begin || first >= piece.rows.back().end) continue;
        const Status read = pages.Read(ctx, spots[i], page_);
        if (!read.ok()) {
          if (read.code() == Code::kRefused) return false;
          return read;
        }
        PF_TRY(take(Found{pages, chunk, BoundOrderOf(file.footer.tree, own), i, *spots[i].first_row,
                          page_, piece.rows}));
      }
      rows_found += piece.row_count;
    }
    return true;
  }

 private:
  // -1 when its pages cannot be compared with those of the target's column.
  Result<int> LeafOf(size_t input, int leaf) {
    std::optional<std::vector<int>>& leaves = leaves_[input];
    if (!leaves) {
      const ParquetInput& file = *rewrite_.inputs[input].file;
      const CopyTarget& target = rewrite_.target.copy;
      PF_ASSIGN(LeafMapping mapping,
                MapParquetLeaves(file.schema(), *target.schema, target.match, file.file_name));
      leaves = std::move(mapping.leaves);
    }
    const auto at = static_cast<size_t>(leaf);
    return at < leaves->size() ? (*leaves)[at] : -1;
  }

  const VerifiedRewrite& rewrite_;
  ArrowMemory& memory_;
  const RowOrigins rows_;
  std::vector<std::optional<std::vector<int>>> leaves_;  // by input: leaves of the target
  DecodedPage page_;
};

// Looks at one file.
class FileVerifier {
 public:
  // `origins` may be null; `first_row` counts the rows of the files before.
  FileVerifier(const WrittenObject& file, OriginPages* origins, int64_t first_row,
               ArrowMemory& memory, VerifyCounts& counts)
      : file_(file),
        origins_(origins),
        memory_(memory),
        counts_(counts),
        source_(std::make_unique<BorrowedSource>(*file.bytes), {.hole_bytes_max = kHoleBytesMax}),
        first_rows_{first_row} {}

  Status Run(const Context& ctx, VerifyMode mode) {
    PF_TRY(ReadFooter(ctx));
    const int groups = footer_.row_group_count();
    if (mode == VerifyMode::kSample) {
      for (int begin = 0; begin < groups; begin += kGroupsPerSample) {
        PF_TRY(Sample(ctx, begin, std::min(begin + kGroupsPerSample, groups)));
      }
      return {};
    }
    for (int group = 0; group < groups; ++group) {
      for (size_t leaf = 0; leaf < columns_.size(); ++leaf) {
        PF_TRY(CheckChunk(ctx, group, static_cast<int>(leaf)));
      }
    }
    return {};
  }

 private:
  // A chunk that is looked at. Stays where it is.
  struct Chunk {
    int group = 0;
    int leaf = 0;
    ChunkPages pages;
    ChunkClaims claims;
  };

  Status ReadFooter(const Context& ctx) {
    PF_ASSIGN(footer_, ReadParquetFooter(ctx, source_, file_.name));
    if (footer_.num_rows() != file_.row_count) {
      return Status(Code::kInternal,
                    fmt::format("verify {}: {} rows were written, its footer says {}", file_.name,
                                file_.row_count, footer_.num_rows()));
    }
    PF_ASSIGN(columns_,
              LeafColumns(footer_.tree.Find(file_metadata::kSchema)->items(), file_.name));
    for (int group = 0; group < footer_.row_group_count(); ++group) {
      first_rows_.push_back(first_rows_.back() + RowCount(group));
      for (size_t leaf = 0; leaf < columns_.size(); ++leaf) {
        PF_TRY(
            CheckCounts(footer_.chunk(group, static_cast<int>(leaf)), columns_[leaf], file_.name));
      }
    }
    return {};
  }

  int64_t RowCount(int group) const {
    return footer_.row_group(group).Find(row_group::kNumRows)->AsInt();
  }

  // One page of every column of these row groups.
  Status Sample(const Context& ctx, int begin, int end) {
    std::vector<int> with_rows;
    for (int group = begin; group < end; ++group) {
      if (RowCount(group) > 0) with_rows.push_back(group);
    }
    if (with_rows.empty()) return {};
    std::vector<std::pair<int, int>> chosen;
    std::vector<FileRange> ranges;
    for (size_t leaf = 0; leaf < columns_.size(); ++leaf) {
      const int group = with_rows[RandomBelow(ctx.random, with_rows.size())];
      chosen.emplace_back(group, static_cast<int>(leaf));
      PF_ASSIGN(const ChunkView view,
                ViewChunk(footer_.chunk(group, static_cast<int>(leaf)), file_.name));
      ranges.push_back(view.offset_index);
      ranges.push_back(view.column_index);
    }
    source_.Fetch(ctx, ranges);
    ranges.clear();
    std::vector<Chunk> chunks;
    std::vector<std::pair<size_t, PageSpot>> spots;
    for (const auto& [group, leaf] : chosen) {
      PF_ASSIGN(Chunk chunk, Open(ctx, group, leaf));
      PF_ASSIGN(const std::vector<PageSpot> pages, chunk.pages.Find(ctx));
      if (pages.empty()) return WrongRows(ctx, chunk, 0);
      const size_t number = RandomBelow(ctx.random, pages.size());
      spots.emplace_back(number, pages[number]);
      if (const auto& offsets = chunk.pages.offsets()) {
        // The dictionary, if any, stands before the first page.
        const int64_t chunk_begin = chunk.pages.chunk().bytes.offset;
        ranges.push_back(
            {.offset = chunk_begin, .length = offsets->pages[0].bytes.offset - chunk_begin});
        ranges.push_back(spots.back().second.bytes);
      }
      chunks.push_back(std::move(chunk));
    }
    source_.Fetch(ctx, ranges);
    for (size_t i = 0; i < chunks.size(); ++i) {
      PF_ASSIGN(const bool is_read, CheckPage(ctx, chunks[i], spots[i].first, spots[i].second));
      if (is_read) PF_TRY(CompareRowsOfPage(ctx, chunks[i], spots[i].second));
    }
    source_.DropBefore(INT64_MAX);
    return {};
  }

  // All pages of a chunk.
  Status CheckChunk(const Context& ctx, int group, int leaf) {
    if (RowCount(group) == 0) return {};
    PF_ASSIGN(Chunk chunk, Open(ctx, group, leaf));
    source_.Fetch(ctx, {chunk.pages.chunk().bytes});
    PF_ASSIGN(const std::vector<PageSpot> spots, chunk.pages.Walk(ctx));
    int64_t nulls = 0, rows = 0;
    bool has_seen_all = true;
    for (size_t number = 0; number < spots.size(); ++number) {
      PF_TRY(ctx.CheckStop("verifying pages"));
      PF_ASSIGN(const bool is_read, CheckPage(ctx, chunk, number, spots[number]));
      has_seen_all = has_seen_all && is_read;
      nulls += page_.header.num_values - page_.value_count;
      rows += page_.row_count;
    }
    source_.DropBefore(INT64_MAX);
    if (!has_seen_all) return {};
    if (rows != RowCount(group)) return WrongRows(ctx, chunk, rows);
    return Blame(ctx, chunk, std::nullopt, chunk.claims.CheckNulls(chunk.pages, nulls));
  }

  Result<Chunk> Open(const Context& ctx, int group, int leaf) {
    const LeafColumn& column = columns_[static_cast<size_t>(leaf)];
    const ThriftValue& tree = footer_.chunk(group, leaf);
    PF_ASSIGN(const ChunkView view, ViewChunk(tree, file_.name));
    PF_ASSIGN(ChunkPages pages, ChunkPages::Open(ctx, source_, view, column, RowCount(group),
                                                 fmt::format("column {} of {}, row group {}",
                                                             column.dotted_path, file_.name, group),
                                                 memory_));
    auto claims = ChunkClaims::Read(ctx, pages, tree, BoundOrderOf(footer_.tree, leaf));
    Chunk chunk{.group = group, .leaf = leaf, .pages = std::move(pages), .claims = {}};
    if (!claims.ok()) return Blame(ctx, chunk, std::nullopt, claims.status());
    chunk.claims = std::move(claims).value();
    return chunk;
  }

  // Leaves the page decoded in `page_`; false when only the library can read it.
  Result<bool> CheckPage(const Context& ctx, Chunk& chunk, size_t number, const PageSpot& spot) {
    Status status = chunk.pages.Read(ctx, spot, page_);
    if (!status.ok() && status.code() == Code::kRefused) {
      ++counts_.pages_unread;
      page_ = {};
      return false;
    }
    if (status.ok()) status = chunk.claims.Check(chunk.pages, number, page_);
    if (!status.ok()) return Blame(ctx, chunk, spot, std::move(status));
    ++counts_.pages;
    return true;
  }

  int64_t FirstRow(const Chunk& chunk) const {
    return first_rows_[static_cast<size_t>(chunk.group)];
  }

  // Compares the decoded page with the rows it was made of, where those can be had in the same way.
  Status CompareRowsOfPage(const Context& ctx, const Chunk& chunk, const PageSpot& spot) {
    if (origins_ == nullptr || !spot.first_row || page_.row_count == 0) return {};
    RowsDigest wanted, found;
    int64_t rows = 0;
    PF_ASSIGN(const bool is_comparable,
              origins_->ForEach(ctx, chunk.leaf, FirstRow(chunk) + *spot.first_row, page_.row_count,
                                rows, [&](const OriginPages::Found& origin) -> Status {
                                  wanted.Add(origin.pages.column(), origin.page,
                                             origin.pages.dictionary(), origin.first_row,
                                             origin.rows);
                                  return {};
                                }));
    if (!is_comparable) return {};
    found.Add(chunk.pages.column(), page_, chunk.pages.dictionary(), 0,
              {{.begin = 0, .end = static_cast<uint64_t>(rows)}});
    if (!(wanted == found)) {
      return Status(Code::kInternal,
                    fmt::format("verify {}: its rows from {} to {} differ from the inputs",
                                chunk.pages.what(), *spot.first_row, *spot.first_row + rows));
    }
    ++counts_.pages_compared;
    counts_.rows_compared += rows;
    return {};
  }

  Status WrongRows(const Context& ctx, const Chunk& chunk, int64_t rows) {
    return Blame(ctx, chunk, std::nullopt,
                 Status(Code::kCorruption,
                        fmt::format("check {}: its pages hold {} rows, the footer says {}",
                                    chunk.pages.what(), rows, RowCount(chunk.group))));
  }

  // The failure, or that of the input whose pages or statements were copied and are wrong already.
  // Without a page it is the whole chunk's.
  Status Blame(const Context& ctx, const Chunk& chunk, const std::optional<PageSpot>& spot,
               Status status) {
    if (status.ok() || status.code() != Code::kCorruption || origins_ == nullptr) return status;
    int64_t begin = FirstRow(chunk), count = RowCount(chunk.group), rows = 0;
    if (spot) {
      if (!spot->first_row) return status;
      begin += *spot->first_row;
      count = *spot->row_count;
    }
    const auto looked_at = origins_->ForEach(
        ctx, chunk.leaf, begin, count, rows, [&](const OriginPages::Found& origin) -> Status {
          PF_ASSIGN(const ChunkClaims claims,
                    ChunkClaims::Read(ctx, origin.pages, origin.chunk, origin.order));
          return claims.Check(origin.pages, origin.number, origin.page);
        });
    return looked_at.ok() || looked_at.status().code() != Code::kCorruption ? status
                                                                            : looked_at.status();
  }

  const WrittenObject& file_;
  OriginPages* const origins_;
  ArrowMemory& memory_;
  VerifyCounts& counts_;
  ReadAheadSource source_;
  ParquetFooter footer_;
  std::vector<LeafColumn> columns_;
  std::vector<int64_t> first_rows_;  // by row group, over all files; one more at the end
  DecodedPage page_;
};

Status CompareAllRows(const Context& ctx, const VerifiedRewrite& rewrite,
                      const std::vector<WrittenObject>& outputs, ArrowMemory& memory,
                      VerifyCounts& counts) {
  using Opened = Result<std::unique_ptr<BatchSource>>;
  const auto open = [&](ByteSource& bytes, const std::string& name, const RewriteInput& like,
                        const RowFilter* deleted) -> Opened {
    ScanSpec spec;
    spec.wanted = rewrite.schema;
    spec.mapping = like.mapping;
    spec.mapping.digits = DigitsOfTimes::kMayBeCut;  // on both sides
    spec.deleted = deleted;
    PF_ASSIGN(auto source, ParquetSource::Open(ctx, std::make_unique<BorrowedSource>(bytes), name,
                                               std::move(spec), memory));
    return std::unique_ptr<BatchSource>(std::move(source));
  };
  RowsInOrder wanted(rewrite.inputs.size(), [&](size_t i) -> Opened {
    const RewriteInput& input = rewrite.inputs[i];
    return open(*input.file->source, input.file->file_name, input, input.deleted);
  });
  RowsInOrder found(outputs.size(), [&](size_t i) -> Opened {
    return open(*outputs[i].bytes, outputs[i].name, rewrite.inputs[0], nullptr);
  });
  PF_ASSIGN(counts.rows_compared, CompareRows(ctx, wanted, found, "verify"));
  counts.pages_compared = counts.pages;
  return {};
}

}  // namespace

std::string_view VerifyModeName(VerifyMode mode) {
  return kModes[static_cast<size_t>(mode)].second;
}

std::optional<VerifyMode> VerifyModeOf(std::string_view name) {
  for (const auto& [mode, own_name] : kModes) {
    if (own_name == name) return mode;
  }
  return std::nullopt;
}

Result<VerifyCounts> VerifyRewrite(const Context& ctx, VerifyMode mode,
                                   const VerifiedRewrite& rewrite,
                                   const std::vector<WrittenObject>& outputs, ArrowMemory& memory) {
  VerifyCounts counts;
  if (mode == VerifyMode::kNone) return counts;
  OriginPages origins(rewrite, memory);
  int64_t rows = 0;
  for (const WrittenObject& output : outputs) rows += output.row_count;
  if (rows != origins.row_count()) {
    return Status(Code::kInternal, fmt::format("verify: the inputs have {} rows, {} were written",
                                               origins.row_count(), rows));
  }
  int64_t first_row = 0;
  for (const WrittenObject& output : outputs) {
    PF_TRY(FileVerifier(output, &origins, first_row, memory, counts).Run(ctx, mode));
    first_row += output.row_count;
  }
  if (mode == VerifyMode::kFull) {
    PF_TRY(CompareAllRows(ctx, rewrite, outputs, memory, counts));
  }
  return counts;
}

Result<VerifyCounts> VerifyFile(const Context& ctx, VerifyMode mode, const WrittenObject& output,
                                ArrowMemory& memory) {
  VerifyCounts counts;
  if (mode == VerifyMode::kNone) return counts;
  PF_TRY(FileVerifier(output, nullptr, 0, memory, counts).Run(ctx, mode));
  return counts;
}

}  // namespace partforge::data
