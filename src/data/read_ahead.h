#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/context.h"
#include "data/file_range.h"
#include "store/object_store.h"

namespace partforge::data {

struct ReadAheadOptions {
  int64_t hole_bytes_max = int64_t{1} << 20;     // unwanted bytes read along to save a request
  int64_t request_bytes_max = int64_t{8} << 20;  // longer ranges are cut
  int64_t held_bytes_max = int64_t{64} << 20;    // fetched and not yet dropped
  int threads = 4;                               // requests at once
};

// The requests that cover the ranges: sorted, disjoint, holes up to hole_bytes_max filled, none
// longer than request_bytes_max unless the hole rule says so. Empty ranges are left out. Pure.
std::vector<FileRange> CoalesceRanges(std::vector<FileRange> ranges,
                                      const ReadAheadOptions& options);

// A byte source that fetches ranges before they are asked for. ReadAt waits for a fetch under way
// and falls through to the object for everything else, so that read-ahead is never needed for a
// right answer. ReadAt is safe for concurrent use; Fetch and Drop belong to one thread.
class ReadAheadSource final : public ByteSource {
 public:
  // Takes the object over.
  ReadAheadSource(std::unique_ptr<ByteSource> object, ReadAheadOptions options);
  ~ReadAheadSource() override;  // waits for requests under way

  int64_t size_bytes() const override;
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override;
  // The bytes of a range where one request fetches all of it; none otherwise, or when that request
  // failed. Waits for it. Valid until DropBefore forgets them. Safe beside ReadAt.
  std::optional<std::span<const std::byte>> View(FileRange range) const;

  // Begins to fetch in the background. Does nothing, and answers false, when the bytes would go
  // beyond held_bytes_max or the memory budget: the ranges are then read when they are asked for.
  // The context is copied for the threads; what it refers to must outlive this object.
  bool Fetch(const Context& ctx, const std::vector<FileRange>& ranges);
  // Forgets every fetched range that ends at or before `offset`. Waits for those under way.
  void DropBefore(int64_t offset);

  int64_t request_count() const;  // to the object, both kinds

 private:
  class Batch;
  class Object;
  std::unique_ptr<Object> object_;
  const ReadAheadOptions options_;
  // One entry for each Fetch, oldest first; changed only by Fetch and DropBefore.
  std::vector<std::unique_ptr<Batch>> batches_;
};

}  // namespace partforge::data
