#include "data/column_stitcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/hash.h"
#include "data/dictionary_union.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

// A union is worth its table while entries are few against values; below the second number always.
constexpr int64_t kUnionShare = 4;
constexpr int64_t kUnionEntriesFree = 4096;
// A page that grows beyond this when its values take the place of indices is left to the encoder,
// which cuts pages.
constexpr size_t kMaterialisedBytesMax = size_t{256} << 20;

// Where in the file what is damaged lies; other failures speak for themselves.
Status AtOffset(Status status, std::string_view thing, int64_t offset) {
  if (status.code() != Code::kCorruption) return status;
  return std::move(status).With(fmt::format("{} at {}", thing, offset));
}

Status Refused(std::string_view what, std::string why) {
  return Status(Code::kRefused, fmt::format("stitch {}: {}", what, why));
}

}  // namespace

Status ColumnStitcher::JoinTo(const Context& ctx, ParquetAssembler& file) {
  ctx_ = &ctx;
  PF_TRY(Load(ctx));
  PF_TRY(ChooseDictionaries());
  PF_ASSIGN(bloom_filter_, JoinBloomFilters(ctx));
  // Pages that stay as they are cannot be refused half-way: they need not be collected.
  if (IsAllVerbatim()) {
    PF_TRY(CheckStoredBytes());
    file_ = &file;
  }
  if (has_dictionary_) PF_TRY(PutDictionary());
  for (Chunk& chunk : chunks_) {
    PF_TRY(ctx.CheckStop("stitching pages"));
    PF_TRY(AppendChunk(chunk));
    // Its pages are in the output now.
    chunk.pages.clear();
    chunk.bytes = {};
    chunk.own_bytes = std::string();
    chunk.grant.Release();
    CloseDictionary(chunk);
  }
  if (file_ == nullptr) PF_TRY(file.AppendPages(ctx, AsBytes(out_)));
  return file.EndChunk(MakeChunk());
}

bool ColumnStitcher::IsAllVerbatim() const {
  return std::all_of(chunks_.begin(), chunks_.end(), [this](const Chunk& chunk) {
    return chunk.removed_rows == 0 && chunk.view.codec == codec_ &&
           std::all_of(chunk.pages.begin(), chunk.pages.end(), [&](const Page& page) {
             return !page.header.is_data() ||
                    (page.header.type == page_type_ && !NeedsNewValues(chunk, page));
           });
  });
}

Status ColumnStitcher::CheckSize(int64_t chunk_bytes) const {
  if (chunk_bytes <= options_.chunk_bytes_max) return {};
  return Refused(column_.dotted_path,
                 fmt::format("its chunk would pass {} bytes", options_.chunk_bytes_max));
}

Status ColumnStitcher::CheckStoredBytes() const {
  int64_t bytes = 0;
  for (const Chunk& chunk : chunks_) {
    for (const Page& page : chunk.pages) bytes += page.header.is_data() ? page.stored_bytes() : 0;
  }
  if (dictionary_of_ != nullptr) bytes += dictionary_of_->pages[0].stored_bytes();
  return CheckSize(bytes);
}

Status ColumnStitcher::Put(std::span<const std::byte> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  bytes_out_ += size;
  PF_TRY(CheckSize(bytes_out_));
  if (file_ != nullptr) return file_->AppendPages(*ctx_, bytes);
  if (bytes_out_ > out_granted_bytes_) {
    // Values that take the place of indices may be many times as long.
    const int64_t more = std::max(size, out_granted_bytes_ / 2);
    PF_ASSIGN(MemoryGrant grant, Charge(more, column_.dotted_path, "the column joined"));
    out_grants_.push_back(std::move(grant));
    out_granted_bytes_ += more;
    out_.reserve(static_cast<size_t>(out_granted_bytes_));
  }
  out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

// One that serves all chunks is copied as it is stored, where its codec is wanted.
Status ColumnStitcher::PutDictionary() {
  if (dictionary_of_ != nullptr && dictionary_of_->view.codec == codec_) {
    const Page& page = dictionary_of_->pages[0];
    PF_TRY(Put(dictionary_of_->bytes.subspan(static_cast<size_t>(page.offset),
                                             static_cast<size_t>(page.stored_bytes()))));
    uncompressed_bytes_ += page.header.header_bytes + page.header.uncompressed_bytes;
    CountPage(static_cast<int>(PageType::kDictionary), page.header.encoding);
  } else {
    if (dictionary_of_ != nullptr) PF_TRY(OpenDictionary(*dictionary_of_));
    const std::string& plain =
        dictionary_of_ != nullptr ? *dictionary_of_->dictionary->plain : dictionary_plain_;
    PF_ASSIGN(PageCompressor* const compressor, CompressorOf(codec_));
    page_.clear();
    PF_ASSIGN(const int64_t plain_bytes,
              WriteDictionaryPage(plain, dictionary_entries_, *compressor, page_));
    PF_TRY(Put(AsBytes(page_)));
    uncompressed_bytes_ += plain_bytes;
    CountPage(static_cast<int>(PageType::kDictionary), static_cast<int>(PageEncoding::kPlain));
  }
  dictionary_page_bytes_ = bytes_out_;
  return {};
}

Result<MemoryGrant> ColumnStitcher::Charge(int64_t bytes, std::string_view name,
                                           std::string_view what) const {
  auto grant = ctx_->memory.TryReserve(bytes);
  if (grant.ok()) return grant;
  return Status(Code::kExhausted,
                fmt::format("stitch {}: no memory for {} bytes of {}", name, bytes, what));
}

Result<PageCompressor*> ColumnStitcher::CompressorOf(int32_t codec) {
  for (auto& [known, compressor] : compressors_) {
    if (known == codec) return &compressor;
  }
  PF_ASSIGN(PageCompressor made, PageCompressor::Make(codec, options_.codec_level));
  compressors_.emplace_back(codec, std::move(made));
  return &compressors_.back().second;
}

Status ColumnStitcher::Load(const Context& ctx) {
  chunks_.resize(parts_.size());
  compressors_.reserve(8);  // pointers into it are handed out; there are eight codecs
  bool has_v1 = false, has_v2 = false;
  for (size_t i = 0; i < parts_.size(); ++i) {
    PF_TRY(LoadChunk(ctx, parts_[i], chunks_[i]));
    for (const Page& page : chunks_[i].pages) {
      has_v1 = has_v1 || page.header.type == PageType::kData;
      has_v2 = has_v2 || page.header.type == PageType::kDataV2;
    }
  }
  // Both versions in one chunk would be legal, but some readers decide by the first page.
  page_type_ = has_v2 && !has_v1 ? PageType::kDataV2 : PageType::kData;
  codec_ = options_.codec.value_or(chunks_[0].view.codec);
  return {};
}

Status ColumnStitcher::LoadChunk(const Context& ctx, const StitchPart& part, Chunk& chunk) {
  const ParquetInput& input = *part.input;
  const auto target = static_cast<size_t>(target_leaf_);
  const int leaf = part.leaves.empty() ? target_leaf_ : part.leaves[target];
  PF_CHECK(leaf >= 0, "a column without a source");
  chunk.part = &part;
  chunk.name = fmt::format("column {} of {}, row group {}", column_.dotted_path, input.file_name,
                           part.row_group);
  const ThriftValue& tree = input.footer.chunk(part.row_group, leaf);
  chunk.order = BoundOrderOf(input.footer.tree, leaf);
  chunk.metadata = tree.Find(column_chunk::kMetaData);
  PF_ASSIGN(chunk.view, ViewChunk(tree, input.file_name));
  chunk.row_count = input.RowCount(part.row_group);
  chunk.first_row = input.first_rows[static_cast<size_t>(part.row_group)];
  chunk.removed_rows = chunk.row_count - part.LiveRows();
  if (chunk.removed_rows > 0 && column_.max_repetition_level > 0) {
    return Refused(chunk.name, "rows are left out of a nested column");
  }
  if (const auto fetched = input.source->View(chunk.view.bytes)) {
    chunk.bytes = *fetched;
  } else {
    PF_ASSIGN(chunk.grant, Charge(chunk.view.bytes.length, chunk.name, "the column"));
    PF_ASSIGN(chunk.own_bytes, ReadRange(ctx, *input.source, chunk.view.bytes, chunk.name));
    chunk.bytes = AsBytes(chunk.own_bytes);
  }
  PF_TRY(LoadPages(chunk));
  PF_ASSIGN(chunk.offsets,
            ReadOffsetIndex(ctx, *input.source, chunk.view, chunk.row_count, chunk.name));
  if (chunk.offsets) {
    PF_ASSIGN(chunk.index, ReadColumnIndex(ctx, *input.source, chunk.view,
                                           chunk.offsets->pages.size(), chunk.name));
  }
  size_t data_pages = 0;
  for (const Page& page : chunk.pages) {
    if (page.header.type == PageType::kDictionary) chunk.entry_count = page.header.num_values;
    if (!page.header.is_data()) continue;
    ++data_pages;
    const bool is_indexed = IsDictionaryEncoding(page.header.encoding);
    chunk.has_only_dictionary_pages = chunk.has_only_dictionary_pages && is_indexed;
    if (is_indexed && !chunk.entry_count) {
      return Status(Code::kCorruption,
                    fmt::format("stitch {}: a page of indices without a dictionary", chunk.name));
    }
  }
  if (chunk.offsets && chunk.offsets->pages.size() != data_pages) {
    return Status(Code::kCorruption,
                  fmt::format("stitch {}: {} pages, the offset index has {}", chunk.name,
                              data_pages, chunk.offsets->pages.size()));
  }
  if (!chunk.entry_count) chunk.has_only_dictionary_pages = false;
  return {};
}

// What is noted of a page may be more than the page. As many as fit into the bytes of the chunk
// once more need not be asked for.
Status ColumnStitcher::LoadPages(Chunk& chunk) {
  constexpr auto kNoteBytes = static_cast<int64_t>(sizeof(Page) + sizeof(PageEntry));
  constexpr int64_t kPagesFree = 16, kPageBytesMin = 7;  // of a header
  const auto bytes = static_cast<int64_t>(chunk.bytes.size());
  auto pages =
      ListPages(chunk.bytes, chunk.view.num_values, chunk.name, kPagesFree + bytes / kNoteBytes);
  if (!pages.ok() && pages.status().code() == Code::kExhausted) {
    PF_ASSIGN(chunk.pages_grant,
              Charge(bytes / kPageBytesMin * kNoteBytes, chunk.name, "what is known of its pages"));
    pages = ListPages(chunk.bytes, chunk.view.num_values, chunk.name);
    chunk.pages_grant.Release();
  }
  if (!pages.ok()) return AtOffset(pages.status(), "chunk", chunk.view.bytes.offset);
  chunk.pages = std::move(pages).value();
  PF_ASSIGN(chunk.pages_grant, Charge(static_cast<int64_t>(chunk.pages.capacity()) * kNoteBytes,
                                      chunk.name, "what is known of its pages"));
  return {};
}

Status ColumnStitcher::OpenDictionary(Chunk& chunk) {
  if (!chunk.entry_count || chunk.dictionary) return {};
  constexpr auto kEntryBytes = static_cast<int64_t>(sizeof(std::string_view));
  const PageHeader& header = chunk.pages[0].header;
  PF_ASSIGN(chunk.dictionary_grant,
            Charge(header.uncompressed_bytes +
                       kEntryBytes * std::min(header.num_values, header.uncompressed_bytes),
                   chunk.name, "its dictionary"));
  PF_ASSIGN(PageCompressor* const compressor, CompressorOf(chunk.view.codec));
  PF_ASSIGN(chunk.dictionary, ParseDictionary(chunk.pages[0], column_, *compressor, chunk.name));
  return {};
}

void ColumnStitcher::CloseDictionary(Chunk& chunk) {
  chunk.dictionary.reset();
  chunk.dictionary_grant.Release();
}

bool ColumnStitcher::DictionariesAreStoredAlike() const {
  const Chunk* first = nullptr;
  for (const Chunk& chunk : chunks_) {
    if (!chunk.entry_count) continue;
    if (first == nullptr) first = &chunk;
    const Page &page = chunk.pages[0], &wanted = first->pages[0];
    if (chunk.view.codec != first->view.codec || *chunk.entry_count != *first->entry_count ||
        page.header.encoding != wanted.header.encoding ||
        page.header.uncompressed_bytes != wanted.header.uncompressed_bytes ||
        !std::equal(page.body.begin(), page.body.end(), wanted.body.begin(), wanted.body.end())) {
      return false;
    }
  }
  return true;
}

// Of many dictionaries two are open at once; where none serves all, they stay so, as they are
// needed again.
Result<ColumnStitcher::Chunk*> ColumnStitcher::FindServingDictionary() {
  Chunk* longest = nullptr;
  for (Chunk& chunk : chunks_) {
    if (!chunk.entry_count) continue;
    PF_TRY(OpenDictionary(chunk));
    if (longest == nullptr) {
      longest = &chunk;
      continue;
    }
    const std::string &own = *chunk.dictionary->plain, &most = *longest->dictionary->plain;
    const bool is_longer = own.size() > most.size();
    const bool goes_on = is_longer ? own.starts_with(most) : most.starts_with(own);
    if (!goes_on) {
      longest = nullptr;
      break;
    }
    CloseDictionary(is_longer ? *longest : chunk);
    if (is_longer) longest = &chunk;
  }
  return longest;
}

// Puts all entries into one table, the first chunk's first, so that its pages stay as they are.
// False when the union is not worth it or grows too large, which is known after as many entries.
Result<bool> ColumnStitcher::UniteDictionaries() {
  int64_t values = 0;
  for (const Chunk& chunk : chunks_) values += chunk.view.num_values;
  DictionaryUnion united({.entries_max = std::max(kUnionEntriesFree, values / kUnionShare),
                          .bytes_max = options_.dictionary_bytes_max});
  for (Chunk& chunk : chunks_) {
    if (!chunk.entry_count) continue;
    const bool was_open = chunk.dictionary.has_value();
    PF_TRY(OpenDictionary(chunk));
    const auto& own = chunk.dictionary->entries;
    PF_ASSIGN(chunk.map_grant, Charge(static_cast<int64_t>(own.size() * sizeof(chunk.map[0])),
                                      chunk.name, "new indices"));
    chunk.map.resize(own.size());
    bool is_identity = true;
    for (size_t i = 0; i < own.size(); ++i) {
      const auto index = united.Add(own[i]);
      if (!index) {
        if (!was_open) CloseDictionary(chunk);
        return false;
      }
      chunk.map[i] = *index;
      is_identity = is_identity && *index == i;
    }
    if (!was_open) CloseDictionary(chunk);
    if (!is_identity) continue;
    chunk.map = {};
    chunk.map_grant.Release();
  }
  for (Chunk& chunk : chunks_) CloseDictionary(chunk);
  dictionary_entries_ = united.entry_count();
  dictionary_plain_ = united.TakeBytes();
  return true;
}

// What is needed of dictionaries is decompressed and no more: one that serves its own chunk alone,
// as where rows leave a row group that is joined with no other, is copied as it is stored.
Status ColumnStitcher::ChooseDictionaries() {
  distinct_count_ = 0;
  for (const Chunk& chunk : chunks_) distinct_count_ += chunk.entry_count.value_or(0);
  const auto first = std::find_if(chunks_.begin(), chunks_.end(),
                                  [](const Chunk& chunk) { return chunk.entry_count.has_value(); });
  if (first == chunks_.end()) return {};
  Chunk* serving = &*first;
  if (!DictionariesAreStoredAlike()) {
    PF_ASSIGN(serving, FindServingDictionary());
  }
  if (serving != nullptr) {
    // An empty one too (a chunk of nulls): pages of indices refer to it.
    has_dictionary_ = true;
    dictionary_of_ = serving;
    dictionary_entries_ = *serving->entry_count;
    distinct_count_ = dictionary_entries_;
    return {};
  }
  PF_ASSIGN(const bool is_united, UniteDictionaries());
  if (is_united) {
    dictionaries_ = Dictionaries::kUnited;
    has_dictionary_ = true;
    distinct_count_ = dictionary_entries_;
    return {};
  }
  for (Chunk& chunk : chunks_) {
    chunk.map = {};
    chunk.map_grant.Release();
  }
  dictionaries_ = Dictionaries::kMaterialised;
  return {};
}

Result<ColumnStitcher::PageRows> ColumnStitcher::RowsOfPage(const Chunk& chunk, size_t data_page,
                                                            const Page& page,
                                                            int64_t rows_before) const {
  PageRows rows;
  if (column_.max_repetition_level == 0) {
    rows.begin = rows_before;
    rows.count = page.header.num_values;
  } else if (chunk.offsets) {
    rows.begin = chunk.offsets->pages[data_page].first_row;
    rows.count = chunk.offsets->EndRow(data_page, chunk.row_count) - *rows.begin;
  }
  if (chunk.offsets) {
    const PagePlace& place = chunk.offsets->pages[data_page];
    if (rows.begin != place.first_row ||
        place.bytes.offset != chunk.view.bytes.offset + page.offset ||
        place.bytes.length != page.stored_bytes()) {
      return Status(
          Code::kCorruption,
          fmt::format("stitch {}: the offset index is wrong about page {}", chunk.name, data_page));
    }
  }
  if (chunk.removed_rows > 0) {
    const auto begin = static_cast<uint64_t>(chunk.first_row + *rows.begin);
    const RowRun run{.begin = begin, .end = begin + static_cast<uint64_t>(rows.count)};
    rows.removed = rows.count - static_cast<int64_t>(chunk.part->deleted->LiveRows(run));
  }
  return rows;
}

PageEntry ColumnStitcher::EntryOf(const Chunk& chunk, size_t data_page) const {
  PageEntry entry;
  if (chunk.offsets) {
    const ThriftValue* texts = chunk.offsets->tree.Find(offset_index::kUnencodedByteArrayBytes);
    if (texts != nullptr && texts->type() == ThriftType::kList &&
        texts->items().size() == chunk.offsets->pages.size() &&
        texts->items()[data_page].type() == ThriftType::kI64) {
      entry.text_bytes = texts->items()[data_page].AsInt();
    }
  }
  // Bounds in another order would be believed in the new file.
  if (!chunk.index || !BoundsHold(column_, chunk.order)) return entry;
  entry.has_bounds = true;
  entry.is_null_page = chunk.index->null_pages[data_page];
  entry.min = chunk.index->min_values[data_page];
  entry.max = chunk.index->max_values[data_page];
  if (chunk.index->null_counts) entry.null_count = (*chunk.index->null_counts)[data_page];
  const auto levels_of = [&](const std::optional<std::vector<int64_t>>& all, int max_level) {
    const auto width = static_cast<size_t>(max_level) + 1;
    std::optional<std::vector<int64_t>> levels;
    if (all && all->size() == width * chunk.index->null_pages.size()) {
      const auto begin = all->begin() + static_cast<std::ptrdiff_t>(width * data_page);
      levels.emplace(begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    return levels;
  };
  entry.repetition_levels =
      levels_of(chunk.index->repetition_histograms, column_.max_repetition_level);
  entry.definition_levels =
      levels_of(chunk.index->definition_histograms, column_.max_definition_level);
  return entry;
}

Status ColumnStitcher::AppendChunk(Chunk& chunk) {
  if (dictionaries_ == Dictionaries::kMaterialised) PF_TRY(OpenDictionary(chunk));
  int64_t rows_before = 0;
  size_t data_page = 0;
  for (const Page& page : chunk.pages) {
    if (!page.header.is_data()) continue;
    PF_ASSIGN(const PageRows rows, RowsOfPage(chunk, data_page, page, rows_before));
    rows_before += rows.count;
    if (!rows.begin) rows_are_known_ = false;
    if (page.header.num_values == 0) {  // it would begin at the row of the next one
      ++data_page;
      continue;
    }
    if (Status appended = AppendPage(chunk, page, data_page, rows); !appended.ok()) {
      return AtOffset(std::move(appended), "page", chunk.view.bytes.offset + page.offset);
    }
    if (rows.begin) rows_out_ += rows.count - rows.removed;
    ++data_page;
  }
  const bool is_counted = column_.max_repetition_level == 0 || chunk.offsets;
  if (is_counted && rows_before != chunk.row_count) {
    return Status(Code::kCorruption,
                  fmt::format("stitch {}: pages hold {} rows, the footer says {}", chunk.name,
                              rows_before, chunk.row_count));
  }
  return {};
}

bool ColumnStitcher::NeedsNewValues(const Chunk& chunk, const Page& page) const {
  if (!IsDictionaryEncoding(page.header.encoding)) return false;
  return dictionaries_ == Dictionaries::kMaterialised ||
         (dictionaries_ == Dictionaries::kUnited && !chunk.map.empty());
}

namespace {

// What a page takes while it is written again: plain bytes before and after, once more where levels
// and values come together and where they are compressed, levels and indices.
int64_t PageRoom(const PageHeader& header) {
  constexpr int64_t kCopies = 4, kBytesPerValue = 12;
  return kCopies * header.uncompressed_bytes +
         kBytesPerValue * std::min(header.num_values, kPageValuesMax);
}

}  // namespace

Status ColumnStitcher::ChargePage(std::string_view name, int64_t bytes) {
  page_bytes_ = bytes;
  if (bytes <= page_grant_.size_bytes()) return {};
  page_grant_.Release();
  PF_ASSIGN(page_grant_, Charge(bytes, name, "a page"));
  return {};
}

Status ColumnStitcher::AppendPage(Chunk& chunk, const Page& page, size_t data_page,
                                  const PageRows& rows) {
  PageEntry entry = EntryOf(chunk, data_page);
  if (rows_are_known_) entry.first_row = rows_out_;
  if (rows.removed > 0 && rows.removed == rows.count) {
    ++counts_.pages_dropped;
    if (column_.max_definition_level == 0) return {};
    if (chunk.removed_nulls && entry.null_count) {
      *chunk.removed_nulls += *entry.null_count;
      return {};
    }
    PF_ASSIGN(PageCompressor* const compressor, CompressorOf(chunk.view.codec));
    PF_TRY(ChargePage(chunk.name, PageRoom(page.header)));
    PF_TRY(OpenPage(page, column_, *compressor, chunk.name, opened_));
    const auto max_level = static_cast<uint32_t>(column_.max_definition_level);
    PF_ASSIGN(const int64_t values, CountInHybrid(opened_.definition_levels, BitWidth(max_level),
                                                  page.header.num_values, max_level, chunk.name));
    *chunk.removed_nulls += page.header.num_values - values;
    return {};
  }
  const bool is_verbatim = rows.removed == 0 && !NeedsNewValues(chunk, page) &&
                           chunk.view.codec == codec_ && page.header.type == page_type_;
  return is_verbatim ? AppendVerbatim(chunk, page, std::move(entry))
                     : AppendRewritten(chunk, page, rows, std::move(entry));
}

Status ColumnStitcher::AppendVerbatim(const Chunk& chunk, const Page& page, PageEntry entry) {
  entry.offset = bytes_out_;
  entry.stored_bytes = page.stored_bytes();
  PF_TRY(Put(chunk.bytes.subspan(static_cast<size_t>(page.offset),
                                 static_cast<size_t>(page.stored_bytes()))));
  uncompressed_bytes_ += page.header.header_bytes + page.header.uncompressed_bytes;
  num_values_ += page.header.num_values;
  CountPage(static_cast<int>(page.header.type), page.header.encoding);
  entries_.push_back(std::move(entry));
  ++counts_.pages_copied;
  return {};
}

namespace {

// Rows of a page to keep, one flag a row.
std::vector<uint8_t> KeptRows(const RowFilter& deleted, uint64_t begin, int64_t count) {
  std::vector<uint8_t> keep(static_cast<size_t>(count), 0);
  const uint64_t end = begin + static_cast<uint64_t>(count);
  for (auto run = deleted.NextRun(begin, end); run; run = deleted.NextRun(run->end, end)) {
    std::fill(keep.begin() + static_cast<std::ptrdiff_t>(run->begin - begin),
              keep.begin() + static_cast<std::ptrdiff_t>(run->end - begin), uint8_t{1});
  }
  return keep;
}

}  // namespace

Status ColumnStitcher::AppendRewritten(Chunk& chunk, const Page& page, const PageRows& rows,
                                       PageEntry entry) {
  const PageHeader& header = page.header;
  PF_ASSIGN(PageCompressor* const reader, CompressorOf(chunk.view.codec));
  OpenedPage& opened = opened_;
  PF_TRY(ChargePage(chunk.name, PageRoom(header)));
  PF_TRY(OpenPage(page, column_, *reader, chunk.name, opened));
  const auto max_level = static_cast<uint32_t>(column_.max_definition_level);
  const int level_bits = BitWidth(max_level);

  PageParts parts{.type = page_type_,
                  .num_values = header.num_values,
                  .num_nulls = 0,
                  .num_rows = rows.count,
                  .encoding = header.encoding};
  const auto as_text = [](std::span<const std::byte> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  parts.repetition_levels = as_text(opened.repetition_levels);
  parts.definition_levels = as_text(opened.definition_levels);
  std::vector<uint8_t> keep_values;  // empty: all
  int64_t value_count = header.num_values;
  if (header.type == PageType::kDataV2) parts.num_rows = header.num_rows;

  if (rows.removed > 0) {
    const std::vector<uint8_t> keep_rows = KeptRows(
        *chunk.part->deleted, static_cast<uint64_t>(chunk.first_row + *rows.begin), rows.count);
    parts.num_rows = parts.num_values = rows.count - rows.removed;
    if (max_level == 0) {
      keep_values = keep_rows;
    } else {
      std::vector<uint32_t>& levels = levels_;
      PF_TRY(DecodeHybrid(opened.definition_levels, level_bits, header.num_values, max_level,
                          chunk.name, levels));
      std::vector<uint32_t> kept;
      std::vector<int64_t> histogram(max_level + 1, 0);
      int64_t removed_nulls = 0;
      for (size_t i = 0; i < levels.size(); ++i) {
        const bool has_value = levels[i] == max_level;
        if (has_value) keep_values.push_back(keep_rows[i]);
        if (keep_rows[i] != 0) {
          kept.push_back(levels[i]);
          ++histogram[levels[i]];
        } else if (!has_value) {
          ++removed_nulls;
        }
      }
      value_count = static_cast<int64_t>(keep_values.size());
      parts.num_nulls = parts.num_values - histogram[max_level];
      if (chunk.removed_nulls) *chunk.removed_nulls += removed_nulls;
      new_levels_.clear();
      EncodeHybrid(kept, level_bits, new_levels_);
      parts.definition_levels = new_levels_;
      if (entry.definition_levels) entry.definition_levels = histogram;
      if (entry.null_count) entry.null_count = parts.num_nulls;
      entry.is_null_page = histogram[max_level] == 0;
    }
    if (entry.repetition_levels) entry.repetition_levels = {parts.num_values};
    entry.text_bytes.reset();
  } else {
    if (max_level > 0) {
      PF_ASSIGN(value_count, CountInHybrid(opened.definition_levels, level_bits, header.num_values,
                                           max_level, chunk.name));
      parts.num_nulls = header.num_values - value_count;
    }
  }

  const bool has_new_values = rows.removed > 0 || NeedsNewValues(chunk, page);
  if (has_new_values) {
    PF_TRY(RewriteValues(chunk, opened, value_count, keep_values, parts.encoding));
    parts.values = new_values_;
  } else {
    parts.values = as_text(opened.values);
  }
  if (rows.removed > 0) {
    ++counts_.pages_filtered;
  } else if (!has_new_values) {
    ++counts_.pages_recompressed;
  } else if (dictionaries_ == Dictionaries::kMaterialised) {
    ++counts_.pages_materialised;
  } else {
    ++counts_.pages_remapped;
  }

  entry.offset = bytes_out_;
  PF_ASSIGN(PageCompressor* const writer, CompressorOf(codec_));
  page_.clear();
  PF_ASSIGN(const int64_t plain_bytes, WriteDataPage(parts, column_, *writer, page_));
  PF_TRY(Put(AsBytes(page_)));
  entry.stored_bytes = bytes_out_ - entry.offset;
  uncompressed_bytes_ += plain_bytes;
  num_values_ += parts.num_values;
  CountPage(static_cast<int>(page_type_), parts.encoding);
  entries_.push_back(std::move(entry));
  return {};
}

// New bytes for a page's values: indices mapped or turned into values, values picked.
Status ColumnStitcher::RewriteValues(const Chunk& chunk, const OpenedPage& opened,
                                     int64_t value_count, const std::vector<uint8_t>& keep,
                                     int& encoding) {
  std::string& out = new_values_;
  out.clear();
  if (!IsDictionaryEncoding(encoding)) {
    PF_ASSIGN(const std::string plain,
              ToPlain(column_, encoding, opened.values, value_count, memory_, chunk.name));
    encoding = static_cast<int>(PageEncoding::kPlain);
    return AppendKept(column_, plain, keep, chunk.name, out);
  }
  std::vector<uint32_t>& indices = indices_;
  indices.clear();
  if (value_count > 0) {
    if (opened.values.empty() || *chunk.entry_count == 0) {
      return Status(Code::kCorruption,
                    fmt::format("stitch {}: indices without a dictionary or width", chunk.name));
    }
    PF_TRY(DecodeHybrid(opened.values.subspan(1), static_cast<int>(opened.values[0]), value_count,
                        static_cast<uint32_t>(*chunk.entry_count - 1), chunk.name, indices));
  }
  if (!keep.empty()) {
    size_t kept = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (keep[i] != 0) indices[kept++] = indices[i];
    }
    indices.resize(kept);
  }
  if (dictionaries_ == Dictionaries::kMaterialised) {
    const auto& entries = chunk.dictionary->entries;
    size_t bytes = 0;
    for (const uint32_t index : indices) bytes += entries[index].size();
    if (bytes > kMaterialisedBytesMax) {
      return Refused(chunk.name, fmt::format("a page of indices has values of {} bytes", bytes));
    }
    constexpr int64_t kCopies = 3;  // as they are, behind levels, compressed
    PF_TRY(ChargePage(chunk.name, page_bytes_ + kCopies * static_cast<int64_t>(bytes)));
    out.reserve(bytes);
    // Entries stand one behind the other in the dictionary page: a run of ascending indices, which
    // is all that unique values give, is one copy.
    for (size_t begin = 0, end = 0; begin < indices.size(); begin = end) {
      end = begin + 1;
      while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
      const std::string_view first = entries[indices[begin]], last = entries[indices[end - 1]];
      out.append(first.data(), last.data() + last.size());
    }
    encoding = static_cast<int>(PageEncoding::kPlain);
    return {};
  }
  if (!chunk.map.empty()) {
    for (uint32_t& index : indices) index = chunk.map[index];
  }
  // Width 0 for a single entry is legal, but not every reader takes it.
  const int width =
      std::max(1, BitWidth(static_cast<uint64_t>(std::max<int64_t>(dictionary_entries_ - 1, 0))));
  out.push_back(static_cast<char>(width));
  EncodeHybrid(indices, width, out);
  encoding = static_cast<int>(PageEncoding::kRleDictionary);
  return {};
}

// Filters of equal size are joined bit by bit while that keeps the rate of false positives near
// what was wanted; else, also where some chunks have none, a new one is made where the dictionaries
// hold every value; else none.
Result<std::string> ColumnStitcher::JoinBloomFilters(const Context& ctx) {
  std::optional<BloomFilter> joined;
  MemoryGrant own_grant;
  bool can_join = true;
  for (const Chunk& chunk : chunks_) {
    PF_ASSIGN(const auto own,
              ReadBloomFilter(ctx, *chunk.part->input->source, chunk.view, chunk.name));
    can_join = can_join && own.has_value() && (!joined || joined->bits.size() == own->bits.size());
    if (!own) continue;
    if (!joined) {
      joined = *own;
      const auto bytes = static_cast<int64_t>(joined->bits.size());
      PF_ASSIGN(bloom_grant_, Charge(bytes, chunk.name, "a bloom filter"));
      PF_ASSIGN(own_grant, Charge(bytes, chunk.name, "a bloom filter"));
    } else if (can_join) {
      std::transform(joined->bits.begin(), joined->bits.end(), own->bits.begin(),
                     joined->bits.begin(), [](char a, char b) { return static_cast<char>(a | b); });
    }
  }
  if (!joined) return std::string();
  const bool is_good_enough =
      chunks_.size() == 1 || FalsePositiveRate(*joined) <= 2 * options_.bloom_false_positive_rate;
  if (can_join && is_good_enough) return joined->header + joined->bits;
  const bool dictionaries_know_all =
      std::all_of(chunks_.begin(), chunks_.end(),
                  [](const Chunk& chunk) { return chunk.has_only_dictionary_pages; });
  if (dictionaries_know_all) return MakeBloomFilterOfDictionaries();
  bloom_grant_.Release();
  return std::string();
}

Result<std::string> ColumnStitcher::MakeBloomFilterOfDictionaries() {
  BloomFilter made = MakeBloomFilter(distinct_count_, options_.bloom_false_positive_rate);
  bloom_grant_.Release();
  PF_ASSIGN(bloom_grant_,
            Charge(static_cast<int64_t>(made.bits.size()), column_.dotted_path, "a bloom filter"));
  for (Chunk& chunk : chunks_) {
    if (dictionary_of_ != nullptr && &chunk != dictionary_of_) continue;  // nothing else is in it
    const bool was_open = chunk.dictionary.has_value();
    PF_TRY(OpenDictionary(chunk));
    for (size_t i = 0; i < chunk.dictionary->entries.size(); ++i) {
      AddToBloomFilter(made, chunk.dictionary->Bare(column_, i));
    }
    if (!was_open) CloseDictionary(chunk);
  }
  return made.header + made.bits;
}

EncodedChunk ColumnStitcher::MakeChunk() {
  ChunkStatistics statistics(column_);
  std::optional<int64_t> nan_count = 0;
  const auto target = static_cast<size_t>(target_leaf_);
  for (const Chunk& chunk : chunks_) {
    statistics.Add(*chunk.metadata, chunk.order,
                   {.values = chunk.removed_rows, .nulls = chunk.removed_nulls});
    const auto& known = chunk.part->nan_counts;
    const bool is_known = target < known.size() && known[target] && chunk.removed_rows == 0;
    if (nan_count && is_known) {
      *nan_count += *known[target];
    } else {
      nan_count.reset();
    }
  }

  ThriftValue metadata = ThriftValue::Struct();
  metadata.Set(column_metadata::kType, ThriftValue::I32(static_cast<int32_t>(column_.type)));
  std::vector<ThriftValue> encodings, encoding_stats;
  std::vector<int> seen;
  for (const auto& [key, count] : encoding_counts_) {
    const auto [page_type, encoding] = key;
    if (std::find(seen.begin(), seen.end(), encoding) == seen.end()) {
      seen.push_back(encoding);
      encodings.push_back(ThriftValue::I32(encoding));
    }
    ThriftValue stat = ThriftValue::Struct();
    stat.Set(encoding_stats::kPageType, ThriftValue::I32(page_type));
    stat.Set(encoding_stats::kEncoding, ThriftValue::I32(encoding));
    stat.Set(encoding_stats::kCount, ThriftValue::I32(static_cast<int32_t>(count)));
    encoding_stats.push_back(std::move(stat));
  }
  const int rle = static_cast<int>(PageEncoding::kRle);  // of the levels
  if (std::find(seen.begin(), seen.end(), rle) == seen.end()) {
    encodings.push_back(ThriftValue::I32(rle));
  }
  metadata.Set(column_metadata::kEncodings,
               ThriftValue::List(ThriftType::kI32, std::move(encodings)));
  metadata.Set(column_metadata::kCodec, ThriftValue::I32(codec_));
  metadata.Set(column_metadata::kNumValues, ThriftValue::I64(num_values_));
  metadata.Set(column_metadata::kTotalUncompressedSize, ThriftValue::I64(uncompressed_bytes_));
  metadata.Set(column_metadata::kTotalCompressedSize, ThriftValue::I64(bytes_out_));
  // Offsets are those of a file in which the chunk begins at 4, behind the magic: 0 would mean
  // "none" for a dictionary.
  constexpr int64_t kStart = 4;
  metadata.Set(column_metadata::kDataPageOffset, ThriftValue::I64(kStart + dictionary_page_bytes_));
  if (dictionary_page_bytes_ > 0) {
    metadata.Set(column_metadata::kDictionaryPageOffset, ThriftValue::I64(kStart));
  }
  if (auto stats = statistics.Statistics()) {
    metadata.Set(column_metadata::kStatistics, std::move(*stats));
  }
  metadata.Set(column_metadata::kEncodingStats,
               ThriftValue::List(ThriftType::kStruct, std::move(encoding_stats)));
  if (statistics.SizeStatistics()) {
    metadata.Set(column_metadata::kSizeStatistics, *statistics.SizeStatistics());
  }

  EncodedChunk encoded;
  encoded.chunk.Set(column_chunk::kMetaData, std::move(metadata));
  encoded.pages_began_at = kStart;
  for (PageEntry& entry : entries_) entry.offset += kStart;
  encoded.offset_index = MakeOffsetIndex(entries_);
  if (encoded.offset_index) encoded.column_index = MakeColumnIndex(column_, entries_);
  encoded.bloom_filter = std::move(bloom_filter_);
  encoded.bloom_grant = std::move(bloom_grant_);
  encoded.nan_count = nan_count;
  return encoded;
}

}  // namespace partforge::data
