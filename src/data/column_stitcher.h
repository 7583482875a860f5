#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/chunk_statistics.h"
#include "data/page_codec.h"
#include "data/page_stitch.h"
#include "data/page_values.h"
#include "data/parquet_assembler.h"
#include "data/parquet_metrics.h"

namespace partforge::data {

// Joins the chunks of one column (page_stitch.h). One object a column; used once.
class ColumnStitcher {
 public:
  ColumnStitcher(const std::vector<StitchPart>& parts, int target_leaf, const LeafColumn& column,
                 const StitchOptions& options, ArrowMemory& memory, StitchCounts& counts)
      : parts_(parts),
        target_leaf_(target_leaf),
        column_(column),
        options_(options),
        memory_(memory),
        counts_(counts) {}

  // Appends the joined chunk to the open row group of the file. kRefused, with nothing appended,
  // when the column must be decoded instead (class D).
  Status JoinTo(const Context& ctx, ParquetAssembler& file);

 private:
  // How dictionaries are treated.
  enum class Dictionaries : uint8_t {
    kKept,          // one serves all chunks, or there is none
    kUnited,        // indices are mapped into their union
    kMaterialised,  // values take the place of indices
  };
  // A chunk of the run with what was read of it.
  struct Chunk {
    const StitchPart* part = nullptr;
    const ThriftValue* metadata = nullptr;
    ChunkView view;
    BoundOrder order = BoundOrder::kUnsaid;
    std::string name;                  // for messages
    std::span<const std::byte> bytes;  // what was fetched ahead, else `own_bytes`
    std::string own_bytes;
    MemoryGrant grant;        // for `own_bytes`
    std::vector<Page> pages;  // spans lie in `bytes`
    MemoryGrant pages_grant;  // for them and what is noted of each
    std::optional<OffsetIndex> offsets;
    std::optional<ColumnIndex> index;
    std::optional<int64_t> entry_count;          // of its dictionary; none: it has none
    std::optional<DictionaryValues> dictionary;  // while it is needed: of a run of many, few are
    MemoryGrant dictionary_grant;
    std::vector<uint32_t> map;  // index in the united dictionary; empty: the identity
    MemoryGrant map_grant;
    bool has_only_dictionary_pages = true;
    int64_t row_count = 0;
    int64_t first_row = 0;  // position in the file
    int64_t removed_rows = 0;
    std::optional<int64_t> removed_nulls = 0;
  };
  // Rows of a page, in the row group of its chunk.
  struct PageRows {
    std::optional<int64_t> begin;
    int64_t count = 0;
    int64_t removed = 0;
  };

  Status Load(const Context& ctx);
  Status LoadChunk(const Context& ctx, const StitchPart& part, Chunk& chunk);
  Status LoadPages(Chunk& chunk);
  Status ChooseDictionaries();
  Status OpenDictionary(Chunk& chunk);
  static void CloseDictionary(Chunk& chunk);
  bool DictionariesAreStoredAlike() const;
  // The longest, when all others are its beginning; else null. Leaves two open at most.
  Result<Chunk*> FindServingDictionary();
  Result<bool> UniteDictionaries();

  bool IsAllVerbatim() const;
  Status CheckSize(int64_t chunk_bytes) const;
  // The same for pages that all stay as they are, before the first of them is written.
  Status CheckStoredBytes() const;
  // Where appended bytes go: behind the file's, else behind those collected in `out_`.
  Status Put(std::span<const std::byte> bytes);
  Status PutDictionary();
  Status AppendChunk(Chunk& chunk);
  Result<PageRows> RowsOfPage(const Chunk& chunk, size_t data_page, const Page& page,
                              int64_t rows_before) const;
  Status AppendPage(Chunk& chunk, const Page& page, size_t data_page, const PageRows& rows);
  Status AppendVerbatim(const Chunk& chunk, const Page& page, PageEntry entry);
  Status AppendRewritten(Chunk& chunk, const Page& page, const PageRows& rows, PageEntry entry);
  // Leaves the new bytes in `new_values_`.
  Status RewriteValues(const Chunk& chunk, const OpenedPage& opened, int64_t value_count,
                       const std::vector<uint8_t>& keep, int& encoding);
  Result<PageCompressor*> CompressorOf(int32_t codec);
  Result<MemoryGrant> Charge(int64_t bytes, std::string_view name, std::string_view what) const;
  // Room for a page while it is decoded and encoded again.
  Status ChargePage(std::string_view name, int64_t bytes);
  PageEntry EntryOf(const Chunk& chunk, size_t data_page) const;
  bool NeedsNewValues(const Chunk& chunk, const Page& page) const;
  void CountPage(int page_type, int encoding) { ++encoding_counts_[{page_type, encoding}]; }
  Result<std::string> JoinBloomFilters(const Context& ctx);
  Result<std::string> MakeBloomFilterOfDictionaries();
  EncodedChunk MakeChunk();

  const std::vector<StitchPart>& parts_;
  const int target_leaf_;
  const LeafColumn& column_;
  const StitchOptions& options_;
  ArrowMemory& memory_;
  StitchCounts& counts_;

  std::vector<Chunk> chunks_;
  std::vector<std::pair<int32_t, PageCompressor>> compressors_;
  int32_t codec_ = 0;
  PageType page_type_ = PageType::kData;
  Dictionaries dictionaries_ = Dictionaries::kKept;
  bool has_dictionary_ = false;
  Chunk* dictionary_of_ = nullptr;  // whose dictionary serves all; null: dictionary_plain_
  std::string dictionary_plain_;
  int64_t dictionary_entries_ = 0;
  int64_t distinct_count_ = 0;  // of all dictionaries together, at most

  const Context* ctx_ = nullptr;      // of JoinTo
  ParquetAssembler* file_ = nullptr;  // null: pages are collected
  std::string out_;
  std::vector<MemoryGrant> out_grants_;
  int64_t out_granted_bytes_ = 0;
  int64_t bytes_out_ = 0;
  // Of one page; members, so that their memory serves all pages.
  MemoryGrant page_grant_;
  int64_t page_bytes_ = 0;  // of the last one
  OpenedPage opened_;
  std::vector<uint32_t> levels_, indices_;
  std::string new_levels_, new_values_, page_;
  std::string bloom_filter_;  // header and bits; may be empty
  MemoryGrant bloom_grant_;
  std::vector<PageEntry> entries_;
  std::map<std::pair<int, int>, int64_t> encoding_counts_;
  int64_t dictionary_page_bytes_ = 0;
  int64_t num_values_ = 0;
  int64_t uncompressed_bytes_ = 0;
  int64_t rows_out_ = 0;
  bool rows_are_known_ = true;
};

}  // namespace partforge::data
