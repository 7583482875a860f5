#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace partforge::data {

// Rows [begin, end) of a file, counted from 0.
struct RowRun {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const RowRun&) const = default;
};

// A set of 64-bit row positions: 32-bit Roaring bitmaps keyed by the high word. One thread at a
// time for changes; reads are safe together.
class Positions {
 public:
  Positions();
  ~Positions();
  Positions(Positions&&) noexcept;
  Positions& operator=(Positions&&) noexcept;
  Positions(const Positions&);
  Positions& operator=(const Positions&);

  void Add(uint64_t position);
  void AddRun(RowRun run);
  void Union(const Positions& other);
  void Subtract(const Positions& other);

  bool empty() const;
  uint64_t cardinality() const;
  bool Contains(uint64_t position) const;
  uint64_t Rank(uint64_t position) const;  // members below `position`
  std::optional<uint64_t> max() const;

  // The first longest run of members, or of positions that are no members, in [from, end); none
  // when there is no such position.
  std::optional<RowRun> NextMemberRun(uint64_t from, uint64_t end) const;
  std::optional<RowRun> NextGap(uint64_t from, uint64_t end) const;
  // All members, ascending. For small sets.
  std::vector<uint64_t> ToVector() const;

  bool operator==(const Positions& other) const;

 private:
  friend struct BitmapCodec;
  struct Buckets;
  std::unique_ptr<Buckets> buckets_;
};

// The rows of a file to leave out; readers ask for runs of what stays. Immutable.
class RowFilter {
 public:
  explicit RowFilter(Positions deleted) : deleted_(std::move(deleted)) {}
  const Positions& deleted() const { return deleted_; }
  // The first run of live rows in [from, end).
  std::optional<RowRun> NextRun(uint64_t from, uint64_t end) const {
    return deleted_.NextGap(from, end);
  }
  uint64_t LiveRows(RowRun run) const {
    return run.size() - (deleted_.Rank(run.end) - deleted_.Rank(run.begin));
  }

 private:
  Positions deleted_;
};

// Byte layouts. Parsers walk the bytes themselves before CRoaring sees them: ascending keys and
// values, counts and sizes inside the bytes, cardinalities true, nothing left over; kCorruption
// with the offset otherwise. Writers choose run containers where those are smaller.

// Standard 32-bit Roaring serialization (RoaringFormatSpec). kInvalidArgument for a position of
// 2^32 or more.
Result<Positions> ParseRoaring32(std::span<const std::byte> bytes, std::string_view what);
Result<std::string> EncodeRoaring32(const Positions& positions);

// Portable 64-bit layout: int64 LE count, then per bucket the high word (int32 LE) and a 32-bit
// bitmap.
enum class EmptyBuckets : uint8_t {
  kSkip,
  kWrite,  // buckets 0..max are all written, as Paimon's 64-bit vectors have them
};
Result<Positions> ParseRoaring64(std::span<const std::byte> bytes, std::string_view what);
// kInvalidArgument when kWrite would need more than 65,536 buckets.
Result<std::string> EncodeRoaring64(const Positions& positions,
                                    EmptyBuckets empty = EmptyBuckets::kSkip);

// Framed deletion vectors: int32 BE size of (magic + bitmap), magic, bitmap, CRC-32 BE over magic
// and bitmap. kBits64 is the blob `deletion-vector-v1` (Iceberg v3, Puffin) and Paimon's bitmap64;
// kBits32 is Paimon's default.
enum class VectorLayout : uint8_t { kBits32, kBits64 };
inline constexpr int64_t kVectorFrameBytes = 8;  // size and CRC, which the size field leaves out

struct PositionVector {
  Positions positions;
  VectorLayout layout = VectorLayout::kBits64;  // found by the magic
};
// `bytes` are exactly one frame. Positions of 2^63 and more are kCorruption.
Result<PositionVector> ParseVector(std::span<const std::byte> bytes, std::string_view what);
Result<std::string> EncodeVector(const Positions& positions, VectorLayout layout,
                                 EmptyBuckets empty = EmptyBuckets::kSkip);
// Length in bytes of the frame that `bytes` begin with, out of its size field; for files that hold
// frames back to back.
Result<int64_t> VectorFrameLength(std::span<const std::byte> bytes, std::string_view what);

}  // namespace partforge::data
