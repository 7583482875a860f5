#include "fuzz/fuzz_local.h"

#include <arrow/api.h>

#include <cstring>
#include <string>

#include "base/hash.h"
#include "data/lookup_file.h"
#include "data/memory_bytes.h"
#include "data/spill.h"
#include "testing/test_world.h"

namespace partforge::fuzz {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

constexpr int64_t kBudgetBytes = int64_t{32} << 20;
constexpr size_t kFooterBytes = 48;

template <class T>
bool Take(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}
bool SkipText(std::string_view& bytes) {
  uint32_t length = 0;
  if (!Take(bytes, length) || length > bytes.size()) return false;
  bytes.remove_prefix(length);
  return true;
}

// Checksums of all blocks that the index names within the file, then that of the index.
void MakeChecksumsRight(std::string& file) {
  if (file.size() < kFooterBytes) return;
  const size_t footer = file.size() - kFooterBytes;
  int64_t offset = 0, length = 0;
  std::memcpy(&offset, file.data() + footer, sizeof offset);
  std::memcpy(&length, file.data() + footer + 8, sizeof length);
  if (offset < 0 || static_cast<size_t>(offset) > footer ||
      length != static_cast<int64_t>(footer) - offset) {
    return;
  }
  const auto at = static_cast<size_t>(offset);
  std::string_view index(file.data() + at, static_cast<size_t>(length));
  const uint32_t index_crc = Crc32c(AsBytes(index));
  std::memcpy(file.data() + footer + 32, &index_crc, sizeof index_crc);
  uint32_t count = 0;
  if (!SkipText(index) || !Take(index, count)) return;
  for (uint32_t i = 0; i < count; ++i) {
    int64_t block = 0;
    uint32_t stored = 0, raw = 0, rows = 0;
    if (!SkipText(index) || !Take(index, block) || !Take(index, stored) || !Take(index, raw) ||
        !Take(index, rows)) {
      return;
    }
    if (block < 0 || static_cast<size_t>(block) > at ||
        stored + size_t{4} > at - static_cast<size_t>(block))
      continue;
    const auto bytes = AsBytes(file).subspan(static_cast<size_t>(block), stored);
    const uint32_t crc = Crc32c(bytes);
    std::memcpy(file.data() + block + stored, &crc, sizeof crc);
  }
}

}  // namespace

std::shared_ptr<arrow::Schema> LocalRowSchema() {
  return arrow::schema({arrow::field("k", arrow::int32(), false), arrow::field("s", arrow::utf8()),
                        arrow::field("l", arrow::list(arrow::int16()))});
}

int FuzzLookupFile(std::span<const std::byte> bytes) {
  partforge::testing::TestWorld world(kBudgetBytes);
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  std::string file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  MakeChecksumsRight(file);
  const auto keys = MakeKeyEncoder(LocalRowSchema(), {{.name = "k"}});
  PF_CHECK(keys.ok(), "keys of the fuzzer's own");
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4}) {
    const auto opened = LookupFile::Open(ctx, std::make_unique<MemorySource>(AsBytes(file)),
                                         {.data_file = "f", .codec = codec}, LocalRowSchema(),
                                         {.memory_bytes_max = int64_t{8} << 20});
    if (!opened.ok()) continue;
    LookupCursor cursor(*opened, **keys, memory);
    for (const int32_t value : {INT32_MIN, 0, 7, 100, 239, INT32_MAX}) {
      arrow::Int32Builder builder;
      PF_CHECK(builder.Append(value).ok(), "a key");
      const auto row = arrow::RecordBatch::Make(arrow::schema({LocalRowSchema()->field(0)}), 1,
                                                {builder.Finish().ValueOrDie()});
      const auto key = (*keys)->Encode(*row);
      const auto found = cursor.Find(ctx, (*key)[0]);
      if (!found.ok() || !*found) continue;
      const auto& batch = *(*found)->batch;
      PF_CHECK((*found)->row < batch.num_rows(), "a row that is not there");
      PF_CHECK(
          static_cast<const arrow::Int32Array&>(*batch.column(0)).Value((*found)->row) == value,
          "a row of another key");
    }
  }
  return 0;
}

int FuzzSpill(std::span<const std::byte> bytes) {
  partforge::testing::TestWorld world(kBudgetBytes);
  ArrowMemory memory(world.context().memory);
  const auto buffer = std::make_shared<arrow::Buffer>(
      reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int64_t>(bytes.size()));
  (void)ParseSpilledBatch(buffer, 0, LocalRowSchema(), memory).ok();
  const auto batch = ParseSpilledBatch(buffer, Crc32c(bytes), LocalRowSchema(), memory);
  if (batch.ok()) PF_CHECK((*batch)->Validate().ok(), "a batch that Arrow does not believe");
  return 0;
}

}  // namespace partforge::fuzz
