#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "data/orc_tail.h"
#include "data/read_ahead.h"

namespace partforge::data {

// Fetches the end of an ORC file, which both parsers of its tail want.
void FetchOrcTail(const Context& ctx, ReadAheadSource& object);

// Fetches what is needed of the next stripe while one is decoded. Whatever fails here only costs
// time: the bytes are then read when they are asked for. One thread at a time.
class OrcReadAhead {
 public:
  // The stripes that will be read, in that order. `object` must outlive this.
  OrcReadAhead(ReadAheadSource& object, std::string file_name, std::vector<FileRange> stripes);

  // Only streams of these top-level columns are wanted. `indices`: numbers of the stripes in the
  // tail, which may be null (then stripes are fetched whole) and must outlive this otherwise.
  void ChooseColumns(const OrcTail* tail, std::vector<size_t> indices,
                     const std::vector<int>& columns);

  // Stripe `n` of those given is read from now on, and none before it any more.
  void Start(const Context& ctx, size_t n);

 private:
  std::vector<FileRange> RangesOf(const Context& ctx, size_t n);
  void FetchFooter(const Context& ctx, size_t n);
  FileRange FooterOf(size_t n) const;
  bool IsInTail(const FileRange& range) const;

  ReadAheadSource& object_;
  const std::string file_name_;
  const std::vector<FileRange> stripes_;
  const OrcTail* tail_ = nullptr;
  std::vector<size_t> indices_;
  std::vector<bool> is_wanted_;  // by column of the type tree; empty: all
  size_t next_stripe_ = 0;       // whose bytes are to be fetched next
  size_t next_footer_ = 0;       // the same for its footer
};

}  // namespace partforge::data
