#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "data/orc_tail.h"
#include "data/read_ahead.h"
#include "data/stream_windows.h"

namespace partforge::data {

// Fetches the end of an ORC file, which both parsers of its tail want.
void FetchOrcTail(const Context& ctx, ReadAheadSource& object);

// Fetches what is needed of the next stripe while one is decoded; a stripe that does not fit what
// may be held is read a piece of each stream at a time. Whatever fails here only costs time: the
// bytes are then read as they are asked for. One thread at a time.
class OrcReadAhead {
 public:
  // The stripes that will be read, in that order. `object` and `windows` must outlive this.
  OrcReadAhead(ReadAheadSource& object, StreamWindows& windows, std::string file_name,
               std::vector<FileRange> stripes, int64_t stream_bytes_max);

  enum class Columns : uint8_t { kAll, kSome };
  // Only streams of these top-level columns are wanted, which are some or all of the file's.
  // `indices`: numbers of the stripes in the tail, which must outlive this. Without this call
  // stripes are fetched whole, or not at all.
  void ChooseColumns(const OrcTail& tail, std::vector<size_t> indices,
                     const std::vector<int>& columns, Columns share);

  // Stripe `n` of those given is read from now on, and none before it any more.
  void Start(const Context& ctx, size_t n);

 private:
  bool FetchStripe(const Context& ctx, size_t n);
  std::vector<FileRange> StreamsOf(const Context& ctx, size_t n);
  void FetchFooter(const Context& ctx, size_t n);
  FileRange FooterOf(size_t n) const;
  bool IsInTail(const FileRange& range) const;

  ReadAheadSource& object_;
  StreamWindows& windows_;
  const std::string file_name_;
  const std::vector<FileRange> stripes_;
  const int64_t stream_bytes_max_;
  const OrcTail* tail_ = nullptr;
  std::vector<size_t> indices_;
  std::vector<bool> is_wanted_;  // by column of the type tree
  Columns share_ = Columns::kAll;
  std::vector<bool> is_fetched_;  // by stripe
  size_t next_footer_ = 0;        // that was not fetched yet
};

}  // namespace partforge::data
