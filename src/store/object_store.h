#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"

namespace partforge {

struct ObjectInfo {
  std::string key;
  int64_t size_bytes = 0;
  int64_t modified_ms = 0;
  std::string etag;  // opaque; empty where the store has none
};

struct StoreTraits {
  bool put_if_absent =
      false;  // PutIfAbsent is one atomic decision between writers on different machines
  bool cheap_link = false;   // Link copies no bytes through this process
  bool strong_list = false;  // List shows what was closed before it began
};

// Bytes of one object. Safe for concurrent ReadAt.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual int64_t size_bytes() const = 0;
  // All of `out`, or an error. kCorruption when the object is shorter than offset + out.size().
  virtual Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) = 0;
};

// An object being written. Visible and durable only after Close; a dropped sink leaves nothing a
// List shows. One thread at a time.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status Append(const Context& ctx, std::span<const std::byte> bytes) = 0;
  virtual Result<ObjectInfo> Close(const Context& ctx) = 0;
};

enum class PutOutcome : uint8_t { kCreated, kAlreadyThere };

struct ListPage {
  std::vector<ObjectInfo> objects;  // sorted by key, bytewise
  std::optional<std::string> next;  // pass as `after` for the following page
};

// Object storage. Safe for concurrent use. Keys are UTF-8, '/'-separated, relative to the store's
// root, without empty, "." or ".." segments (kInvalidArgument; all rules in CheckObjectKey). An
// absent object is kNotFound.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  virtual StoreTraits traits() const = 0;
  // What a person would call this store: "file:///data", "s3://bucket". Never holds secrets.
  virtual std::string url() const = 0;
  virtual Result<std::unique_ptr<ByteSource>> Open(const Context& ctx, std::string_view key) = 0;
  // Overwrites when closed. `size_hint_bytes` < 0 = unknown; lets S3 choose the part size.
  virtual Result<std::unique_ptr<ByteSink>> Create(const Context& ctx, std::string_view key,
                                                   int64_t size_hint_bytes) = 0;
  // The compare-and-set of lake tables. A lost reply is resolved by reading the object back:
  // kUnknownOutcome only while that is impossible too.
  virtual Result<PutOutcome> PutIfAbsent(const Context& ctx, std::string_view key,
                                         std::span<const std::byte> bytes) = 0;
  virtual Result<ObjectInfo> Stat(const Context& ctx, std::string_view key) = 0;
  // Keys that start with `prefix` and are greater than `after`, at most about a thousand.
  virtual Result<ListPage> List(const Context& ctx, std::string_view prefix,
                                std::optional<std::string> after) = 0;
  // Hard link or server-side copy; overwrites `to`. A hard link keeps the time of `from`.
  virtual Status Link(const Context& ctx, std::string_view from, std::string_view to) = 0;
  // Absent counts as deleted. Goes on after a failure and reports the first.
  virtual Status Delete(const Context& ctx, std::span<const std::string> keys) = 0;
  // Removes what dead writers left behind and no List shows (temporary files, multipart uploads of
  // keys that start with `prefix`), when it has not changed for `age_ms_min`. Returns how many.
  virtual Result<int64_t> SweepLeftovers(const Context& ctx, std::string_view prefix,
                                         int64_t age_ms_min);
};

// Whole object in memory; kInvalidArgument above `size_bytes_max`.
Result<std::string> ReadObject(const Context& ctx, ObjectStore& store, std::string_view key,
                               int64_t size_bytes_max = int64_t{1} << 28);
Result<ObjectInfo> WriteObject(const Context& ctx, ObjectStore& store, std::string_view key,
                               std::string_view bytes);
// All pages. kExhausted above `objects_max`.
Result<std::vector<ObjectInfo>> ListAll(const Context& ctx, ObjectStore& store,
                                        std::string_view prefix, int64_t objects_max = 10'000'000);
// kInvalidArgument unless `key` is valid UTF-8 of 1 to 1024 bytes, without control characters or
// backslash, with no empty, "." or ".." segment, and outside kReservedPrefix.
Status CheckObjectKey(std::string_view key);
// The same for a prefix of keys: may be empty, and its last segment may be cut between any two
// characters, or empty.
Status CheckKeyPrefix(std::string_view prefix);

// Keys below it belong to the stores themselves (half-written files, probes). Never listed.
inline constexpr std::string_view kReservedPrefix = ".partforge-tmp/";

}  // namespace partforge
