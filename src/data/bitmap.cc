#include "data/bitmap.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <roaring/roaring.hh>

#include "data/raw_bytes.h"

namespace partforge::data {

struct Positions::Buckets {
  std::map<uint32_t, Roaring> by_high;  // no bucket is empty

  bool operator==(const Buckets& other) const {
    return std::ranges::equal(by_high, other.by_high, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second == b.second;
    });
  }
};

namespace {

uint32_t High(uint64_t position) {
  return static_cast<uint32_t>(position >> 32);
}
uint32_t Low(uint64_t position) {
  return static_cast<uint32_t>(position);
}
uint64_t Join(uint32_t high, uint32_t low) {
  return uint64_t{high} << 32 | low;
}

// Calls `act(high, begin, end)` for the part of the run in each bucket; begin and end are low
// words, end up to 2^32.
template <class Act>
void SplitByBucket(RowRun run, Act act) {
  while (run.begin < run.end) {
    const uint32_t high = High(run.begin);
    const uint64_t begin = Low(run.begin);
    const bool is_last = High(run.end - 1) == high;
    const uint64_t end = is_last ? uint64_t{Low(run.end - 1)} + 1 : uint64_t{1} << 32;
    act(high, begin, end);
    run.begin += end - begin;
    if (is_last) return;
  }
}

}  // namespace

Positions::Positions() : buckets_(std::make_unique<Buckets>()) {}
Positions::~Positions() = default;
Positions::Positions(Positions&& other) noexcept : buckets_(std::move(other.buckets_)) {
  other.buckets_ = std::make_unique<Buckets>();
}
Positions& Positions::operator=(Positions&& other) noexcept {
  std::swap(buckets_, other.buckets_);
  return *this;
}
Positions::Positions(const Positions& other)
    : buckets_(std::make_unique<Buckets>(*other.buckets_)) {}
Positions& Positions::operator=(const Positions& other) {
  if (this != &other) *buckets_ = *other.buckets_;
  return *this;
}

void Positions::Add(uint64_t position) {
  buckets_->by_high[High(position)].add(Low(position));
}

void Positions::AddRun(RowRun run) {
  SplitByBucket(run, [this](uint32_t high, uint64_t begin, uint64_t end) {
    buckets_->by_high[high].addRange(begin, end);
  });
}

void Positions::Union(const Positions& other) {
  for (const auto& [high, bitmap] : other.buckets_->by_high) buckets_->by_high[high] |= bitmap;
}

void Positions::Subtract(const Positions& other) {
  for (const auto& [high, bitmap] : other.buckets_->by_high) {
    const auto mine = buckets_->by_high.find(high);
    if (mine == buckets_->by_high.end()) continue;
    mine->second -= bitmap;
    if (mine->second.isEmpty()) buckets_->by_high.erase(mine);
  }
}

bool Positions::empty() const {
  return buckets_->by_high.empty();
}

uint64_t Positions::cardinality() const {
  uint64_t sum = 0;
  for (const auto& [high, bitmap] : buckets_->by_high) sum += bitmap.cardinality();
  return sum;
}

bool Positions::Contains(uint64_t position) const {
  const auto bucket = buckets_->by_high.find(High(position));
  return bucket != buckets_->by_high.end() && bucket->second.contains(Low(position));
}

uint64_t Positions::Rank(uint64_t position) const {
  uint64_t rank = 0;
  for (const auto& [high, bitmap] : buckets_->by_high) {
    if (high > High(position)) break;
    if (high < High(position)) {
      rank += bitmap.cardinality();
    } else if (Low(position) > 0) {
      rank += bitmap.rank(Low(position) - 1);  // CRoaring counts its argument in
    }
  }
  return rank;
}

std::optional<uint64_t> Positions::max() const {
  if (empty()) return std::nullopt;
  const auto& [high, bitmap] = *buckets_->by_high.rbegin();
  return Join(high, bitmap.maximum());
}

std::optional<RowRun> Positions::NextMemberRun(uint64_t from, uint64_t end) const {
  if (from >= end) return std::nullopt;
  std::optional<RowRun> run;
  for (auto bucket = buckets_->by_high.lower_bound(High(from)); bucket != buckets_->by_high.end();
       ++bucket) {
    const auto& [high, bitmap] = *bucket;
    if (run && run->end != Join(high, 0)) return run;
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator(&bitmap.roaring, &cursor);
    if (!run && High(from) == high) {
      roaring_move_uint32_iterator_equalorlarger(&cursor, Low(from));
    }
    for (; cursor.has_value; roaring_advance_uint32_iterator(&cursor)) {
      const uint64_t position = Join(high, cursor.current_value);
      if (position >= end) return run;
      if (!run) {
        run = RowRun{.begin = position, .end = position + 1};
      } else if (position != run->end) {
        return run;
      } else {
        run->end = position + 1;
      }
    }
    // A run goes on in the next bucket only from the last word of this one.
    if (run && Low(run->end) != 0) return run;
  }
  return run;
}

std::optional<RowRun> Positions::NextGap(uint64_t from, uint64_t end) const {
  while (from < end) {
    const std::optional<RowRun> members = NextMemberRun(from, end);
    if (!members) return RowRun{.begin = from, .end = end};
    if (members->begin > from) return RowRun{.begin = from, .end = members->begin};
    from = members->end;
  }
  return std::nullopt;
}

std::vector<uint64_t> Positions::ToVector() const {
  std::vector<uint64_t> members;
  members.reserve(cardinality());
  for (const auto& [high, bitmap] : buckets_->by_high) {
    for (const uint32_t low : bitmap) members.push_back(Join(high, low));
  }
  return members;
}

bool Positions::operator==(const Positions& other) const {
  return *buckets_ == *other.buckets_;
}

namespace {

// RoaringFormatSpec: constants of the 32-bit layout.
constexpr uint32_t kCookieNoRuns = 12346;
constexpr uint32_t kCookieRuns = 12347;
constexpr size_t kOffsetsFrom = 4;  // with runs, offsets are there from this many containers on
constexpr size_t kArrayValuesMax = 4096;  // above: a bitset
constexpr size_t kBitsetBytes = 8192;
constexpr size_t kContainersMax = 65'536;
constexpr size_t kBucketBytesMin = 12;  // high word and an empty bitmap
constexpr size_t kEmptyBucketsMax = 65'536;

class ByteWalk {
 public:
  ByteWalk(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  std::span<const std::byte> rest() const { return bytes_.subspan(position_); }
  std::span<const std::byte> Slice(size_t begin) const {
    return bytes_.subspan(begin, position_ - begin);
  }

  Status Corrupt(std::string_view found) const {
    return Status(Code::kCorruption,
                  fmt::format("parse {}: {} at offset {}", what_, found, position_));
  }

  template <class Int>
  Result<Int> Little() {
    if (remaining() < sizeof(Int)) return Corrupt("end of bytes");
    Int value;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

  Result<std::span<const std::byte>> Take(size_t length) {
    if (remaining() < length) return Corrupt("end of bytes");
    const auto taken = bytes_.subspan(position_, length);
    position_ += length;
    return taken;
  }

 private:
  const std::span<const std::byte> bytes_;
  const std::string_view what_;
  size_t position_ = 0;
};

uint16_t U16(std::span<const std::byte> bytes, size_t index) {
  uint16_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

struct Container {
  uint16_t key = 0;
  size_t cardinality = 0;
  bool is_runs = false;
};

// One container's values; returns whether runs touch each other, which no writer should leave.
Result<bool> CheckContainer(const Container& container, ByteWalk& walk) {
  if (container.is_runs) {
    PF_ASSIGN(const uint16_t count, walk.Little<uint16_t>());
    PF_ASSIGN(const auto runs, walk.Take(size_t{count} * 4));
    size_t values = 0;
    bool is_touching = false;
    int64_t last_end = -2;  // last value of the run before
    for (size_t i = 0; i < count; ++i) {
      const int64_t start = U16(runs, 2 * i);
      const int64_t end = start + U16(runs, 2 * i + 1);
      if (start <= last_end || end > std::numeric_limits<uint16_t>::max()) {
        return walk.Corrupt("runs out of order before");
      }
      is_touching |= start == last_end + 1;
      last_end = end;
      values += static_cast<size_t>(end - start) + 1;
    }
    if (values != container.cardinality) return walk.Corrupt("runs do not add up before");
    return is_touching;
  }
  if (container.cardinality <= kArrayValuesMax) {
    PF_ASSIGN(const auto values, walk.Take(container.cardinality * 2));
    for (size_t i = 1; i < container.cardinality; ++i) {
      if (U16(values, i) <= U16(values, i - 1)) return walk.Corrupt("values out of order before");
    }
    return false;
  }
  PF_ASSIGN(const auto words, walk.Take(kBitsetBytes));
  size_t values = 0;
  for (size_t i = 0; i < kBitsetBytes; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, words.data() + i, sizeof word);
    values += static_cast<size_t>(std::popcount(word));
  }
  if (values != container.cardinality) return walk.Corrupt("bits do not add up before");
  return false;
}

// A checked bitmap whose runs that touch are joined: CRoaring's set operations rely on that. It is
// done here, as what CRoaring makes of runs it is to take apart is kilobytes for each few bytes.
std::string WithJoinedRuns(std::span<const std::byte> bytes) {
  const std::string_view from(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t count = size_t{U16(bytes, 1)} + 1;  // of a cookie with runs
  const size_t descriptors_at = sizeof(uint32_t) + (count + 7) / 8;
  const size_t offsets_at = descriptors_at + count * 4;
  size_t at = offsets_at + (count >= kOffsetsFrom ? count * 4 : 0);
  std::string out(from.substr(0, at));
  for (size_t i = 0; i < count; ++i) {
    if (count >= kOffsetsFrom) {
      const auto offset = static_cast<uint32_t>(out.size());
      std::memcpy(out.data() + offsets_at + i * sizeof offset, &offset, sizeof offset);
    }
    const bool is_runs = (static_cast<uint8_t>(from[4 + i / 8]) >> (i % 8) & 1) != 0;
    if (!is_runs) {
      const size_t cardinality = size_t{U16(bytes.subspan(descriptors_at), 2 * i + 1)} + 1;
      const size_t size = cardinality <= kArrayValuesMax ? 2 * cardinality : kBitsetBytes;
      out += from.substr(at, size);
      at += size;
      continue;
    }
    const size_t runs = U16(bytes.subspan(at), 0);
    const auto numbers = bytes.subspan(at + sizeof(uint16_t), runs * 4);
    at += sizeof(uint16_t) + numbers.size();
    std::vector<std::pair<uint16_t, uint16_t>> joined;  // start, values behind it
    for (size_t r = 0; r < runs; ++r) {
      const uint16_t start = U16(numbers, 2 * r), more = U16(numbers, 2 * r + 1);
      const bool touches =
          !joined.empty() && int{joined.back().first} + joined.back().second + 1 == int{start};
      if (!touches) {
        joined.emplace_back(start, more);
      } else {
        joined.back().second = static_cast<uint16_t>(joined.back().second + more + 1);
      }
    }
    AppendRaw(static_cast<uint16_t>(joined.size()), out);
    for (const auto& [start, more] : joined) {
      AppendRaw(start, out);
      AppendRaw(more, out);
    }
  }
  return out;
}

// Walks one 32-bit bitmap and then lets CRoaring read exactly those bytes. CRoaring's own safe
// reader checks sizes but not contents, prints to stderr, and its 64-bit reader may look past the
// end (specs/dependencies.md §5).
Result<Roaring> Bitmap32(ByteWalk& walk) {
  const size_t begin = walk.position();
  PF_ASSIGN(const uint32_t cookie, walk.Little<uint32_t>());
  const bool has_runs = (cookie & 0xffff) == kCookieRuns;
  size_t count = 0;
  std::span<const std::byte> run_flags;
  if (has_runs) {
    count = (cookie >> 16) + 1;
    PF_ASSIGN(run_flags, walk.Take((count + 7) / 8));
  } else if (cookie == kCookieNoRuns) {
    PF_ASSIGN(const uint32_t stored, walk.Little<uint32_t>());
    if (stored > kContainersMax) return walk.Corrupt(fmt::format("{} containers", stored));
    count = stored;
  } else {
    return walk.Corrupt(fmt::format("unknown cookie {}", cookie));
  }
  PF_ASSIGN(const auto descriptors, walk.Take(count * 4));
  std::span<const std::byte> offsets;
  if (!has_runs || count >= kOffsetsFrom) {
    PF_ASSIGN(offsets, walk.Take(count * 4));
  }
  bool is_touching = false;
  for (size_t i = 0; i < count; ++i) {
    const Container container{
        .key = U16(descriptors, 2 * i),
        .cardinality = size_t{U16(descriptors, 2 * i + 1)} + 1,
        .is_runs = has_runs && (std::to_integer<int>(run_flags[i / 8]) >> (i % 8) & 1) != 0};
    if (i > 0 && container.key <= U16(descriptors, 2 * (i - 1))) {
      return walk.Corrupt("container keys out of order before");
    }
    if (!offsets.empty()) {
      uint32_t offset = 0;
      std::memcpy(&offset, offsets.data() + i * sizeof offset, sizeof offset);
      if (offset != walk.position() - begin)
        return walk.Corrupt("container is not where it should be");
    }
    PF_ASSIGN(const bool touches, CheckContainer(container, walk));
    is_touching |= touches;
  }
  const auto bytes = walk.Slice(begin);
  try {
    if (is_touching) {
      const std::string joined = WithJoinedRuns(bytes);
      return Roaring::readSafe(joined.data(), joined.size());
    }
    return Roaring::readSafe(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } catch (const std::exception& failure) {
    return walk.Corrupt(failure.what());
  }
}

Status CheckEnd(const ByteWalk& walk) {
  if (walk.remaining() > 0)
    return walk.Corrupt(fmt::format("{} bytes left over", walk.remaining()));
  return {};
}

void PutBig32(uint32_t value, std::string& out) {
  AppendRaw(__builtin_bswap32(value), out);
}

void PutBitmap32(Roaring bitmap, std::string& out) {
  bitmap.runOptimize();
  const size_t begin = out.size();
  const size_t length = bitmap.getSizeInBytes();
  out.resize(begin + length);
  const size_t written = bitmap.write(out.data() + begin);
  PF_CHECK(written == length, "CRoaring wrote another length than it announced");
}

}  // namespace

// The byte layouts, as the one place that sees into Positions.
struct BitmapCodec {
  static Result<Positions> Parse32(ByteWalk& walk) {
    PF_ASSIGN(Roaring bitmap, Bitmap32(walk));
    Positions positions;
    if (!bitmap.isEmpty()) positions.buckets_->by_high.emplace(0, std::move(bitmap));
    return positions;
  }

  static Result<Positions> Parse64(ByteWalk& walk) {
    PF_ASSIGN(const uint64_t count, walk.Little<uint64_t>());
    if (count > walk.remaining() / kBucketBytesMin) {
      return walk.Corrupt(fmt::format("{} buckets beyond the end", count));
    }
    Positions positions;
    int64_t last_key = -1;
    for (uint64_t i = 0; i < count; ++i) {
      PF_ASSIGN(const uint32_t key, walk.Little<uint32_t>());
      if (int64_t{key} <= last_key) return walk.Corrupt("bucket keys out of order before");
      last_key = key;
      PF_ASSIGN(Roaring bitmap, Bitmap32(walk));
      if (bitmap.isEmpty()) continue;
      positions.buckets_->by_high.emplace_hint(positions.buckets_->by_high.end(), key,
                                               std::move(bitmap));
    }
    return positions;
  }

  static Result<std::string> Encode32(const Positions& positions) {
    const auto& buckets = positions.buckets_->by_high;
    if (!buckets.empty() && buckets.rbegin()->first > 0) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("encode a 32-bit bitmap: position above 32 bits: {}", *positions.max()));
    }
    std::string out;
    PutBitmap32(buckets.empty() ? Roaring() : buckets.begin()->second, out);
    return out;
  }

  static Result<std::string> Encode64(const Positions& positions, EmptyBuckets empty) {
    const auto& buckets = positions.buckets_->by_high;
    std::string out;
    if (empty == EmptyBuckets::kSkip || buckets.empty()) {
      AppendRaw<uint64_t>(buckets.size(), out);
      for (const auto& [high, bitmap] : buckets) {
        AppendRaw(high, out);
        PutBitmap32(bitmap, out);
      }
      return out;
    }
    const uint64_t count = uint64_t{buckets.rbegin()->first} + 1;
    if (count > kEmptyBucketsMax) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("encode a 64-bit bitmap: above {} buckets: {}", kEmptyBucketsMax, count));
    }
    AppendRaw(count, out);
    for (uint32_t high = 0; high < count; ++high) {
      const auto found = buckets.find(high);
      AppendRaw(high, out);
      PutBitmap32(found == buckets.end() ? Roaring() : found->second, out);
    }
    return out;
  }
};

Result<Positions> ParseRoaring32(std::span<const std::byte> bytes, std::string_view what) {
  ByteWalk walk(bytes, what);
  PF_ASSIGN(Positions positions, BitmapCodec::Parse32(walk));
  PF_TRY(CheckEnd(walk));
  return positions;
}

Result<std::string> EncodeRoaring32(const Positions& positions) {
  return BitmapCodec::Encode32(positions);
}

Result<Positions> ParseRoaring64(std::span<const std::byte> bytes, std::string_view what) {
  ByteWalk walk(bytes, what);
  PF_ASSIGN(Positions positions, BitmapCodec::Parse64(walk));
  PF_TRY(CheckEnd(walk));
  return positions;
}

Result<std::string> EncodeRoaring64(const Positions& positions, EmptyBuckets empty) {
  return BitmapCodec::Encode64(positions, empty);
}

namespace {

// Iceberg v3 "Deletion vectors" and Paimon's bitmap64: d1 d3 39 64; Paimon's 32-bit vectors: 5e 43
// f2 d0. As they stand in the file.
constexpr std::array kMagic64 = {std::byte{0xd1}, std::byte{0xd3}, std::byte{0x39},
                                 std::byte{0x64}};
constexpr std::array kMagic32 = {std::byte{0x5e}, std::byte{0x43}, std::byte{0xf2},
                                 std::byte{0xd0}};
constexpr size_t kMagicBytes = 4;

uint32_t Crc32(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

Result<int64_t> VectorFrameLength(std::span<const std::byte> bytes, std::string_view what) {
  ByteWalk walk(bytes, what);
  PF_ASSIGN(const uint32_t stored, walk.Little<uint32_t>());
  const uint32_t size = __builtin_bswap32(stored);
  if (size < kMagicBytes || size > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    return walk.Corrupt(fmt::format("vector size {}", size));
  }
  return int64_t{size} + kVectorFrameBytes;
}

Result<PositionVector> ParseVector(std::span<const std::byte> bytes, std::string_view what) {
  PF_ASSIGN(const int64_t length, VectorFrameLength(bytes, what));
  if (static_cast<uint64_t>(length) != bytes.size()) {
    return Status(Code::kCorruption, fmt::format("parse {}: vector says {} bytes, there are {}",
                                                 what, length, bytes.size()));
  }
  const auto body = bytes.subspan(4, bytes.size() - kVectorFrameBytes);
  uint32_t stored_crc = 0;
  std::memcpy(&stored_crc, bytes.data() + bytes.size() - 4, sizeof stored_crc);
  if (Crc32(body) != __builtin_bswap32(stored_crc)) {
    return Status(Code::kCorruption,
                  fmt::format("parse {}: checksum of the vector is wrong", what));
  }
  const auto magic = body.first(kMagicBytes);
  const auto bitmap = body.subspan(kMagicBytes);
  if (std::ranges::equal(magic, kMagic32)) {
    PF_ASSIGN(Positions positions, ParseRoaring32(bitmap, what));
    return PositionVector{.positions = std::move(positions), .layout = VectorLayout::kBits32};
  }
  if (!std::ranges::equal(magic, kMagic64)) {
    return Status(Code::kCorruption, fmt::format("parse {}: unknown magic of the vector", what));
  }
  PF_ASSIGN(Positions positions, ParseRoaring64(bitmap, what));
  if (const auto max = positions.max();
      max && *max > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return Status(Code::kCorruption,
                  fmt::format("parse {}: position above 63 bits: {}", what, *max));
  }
  return PositionVector{.positions = std::move(positions), .layout = VectorLayout::kBits64};
}

Result<std::string> EncodeVector(const Positions& positions, VectorLayout layout,
                                 EmptyBuckets empty) {
  const auto& magic = layout == VectorLayout::kBits32 ? kMagic32 : kMagic64;
  if (const auto max = positions.max();
      max && *max > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return Status(Code::kInvalidArgument,
                  fmt::format("encode a vector: position above 63 bits: {}", *max));
  }
  PF_ASSIGN(const std::string bitmap, layout == VectorLayout::kBits32
                                          ? EncodeRoaring32(positions)
                                          : EncodeRoaring64(positions, empty));
  const size_t size = kMagicBytes + bitmap.size();
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Status(Code::kExhausted, fmt::format("encode a vector: above 31 bits: {}", size));
  }
  std::string out;
  out.reserve(size + kVectorFrameBytes);
  PutBig32(static_cast<uint32_t>(size), out);
  out.append(reinterpret_cast<const char*>(magic.data()), magic.size());
  out += bitmap;
  PutBig32(Crc32(std::as_bytes(std::span(out)).subspan(4)), out);
  return out;
}

}  // namespace partforge::data
