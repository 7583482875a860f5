#include "clickhouse/artifact_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "base/parallel_for.h"
#include "clickhouse/part_files.h"
#include "clickhouse/part_name.h"
#include "clickhouse/part_verifier.h"
#include "clickhouse/tar_writer.h"

namespace partforge::clickhouse {
namespace {

// Streams one part; what is sent is checked against checksums.txt on its way.
Result<ArtifactPart> PackPart(const Context& ctx, ObjectStore& store, std::string_view prefix,
                              const PartDirectory& part) {
  PF_ASSIGN(const PartName name, ParsePartName(part.name));
  PF_ASSIGN(const PartInfo info, ReadPart(ctx, part.directory));
  PF_ASSIGN(const std::vector<TarEntry> entries, ListPartEntries(part.directory, part.name));
  const std::string key = TarKey(prefix, part.name);
  PF_ASSIGN(const std::unique_ptr<ByteSink> sink, store.Create(ctx, key, TarSizeBytes(entries)));
  PartStreamVerifier verifier(part.directory.string(), VerifyLevel::kContent);
  const auto content = [&](const Context& inner, const TarEntry& entry,
                           const TarEmit& emit) -> Status {
    const std::string relative = entry.path.substr(part.name.size() + 1);
    PF_TRY(verifier.BeginFile(relative, entry.size_bytes));
    const auto both = [&](std::span<const std::byte> bytes) -> Status {
      PF_TRY(verifier.Update(bytes));
      return emit(bytes);
    };
    PF_TRY(EmitFile(inner, part.directory / relative, entry.size_bytes, both));
    return verifier.EndFile();
  };
  const auto write = [&](std::span<const std::byte> bytes) { return sink->Append(ctx, bytes); };
  PF_ASSIGN(const TarDigest digest, WriteTar(ctx, entries, content, write));
  PF_TRY(verifier.Finish());
  PF_TRY(sink->Close(ctx));
  PF_FAULT(ctx, "clickhouse.tar_uploaded");
  return ArtifactPart{.name = part.name,
                      .partition_id = name.partition_id,
                      .rows = info.rows,
                      .bytes_on_disk = info.bytes_on_disk,
                      .tar_size_bytes = digest.size_bytes,
                      .tar_sha256 = digest.sha256,
                      .checksums_txt_sha256 = info.checksums_txt_sha256,
                      .hash_of_all_files = info.checksums.HashOfAllFiles()};
}

Status AnotherAttempts(const std::string& key) {
  return Status(Code::kUnavailable, "another attempt of that number has written " + key)
      .Explain(6006, key,
               "nothing for this part, its next attempt has another prefix; look whether two state "
               "stores have a job of this id");
}

// The import attaches parts in this order, and an engine that keeps the last row must see all_2
// before all_10.
Result<std::vector<const PartDirectory*>> InBlockOrder(const std::vector<PartDirectory>& parts) {
  std::vector<std::pair<PartName, const PartDirectory*>> named;
  for (const PartDirectory& part : parts) {
    PF_ASSIGN(PartName name, ParsePartName(part.name));
    named.emplace_back(std::move(name), &part);
  }
  const auto key = [](const auto& one) {
    return std::tie(one.first.partition_id, one.first.min_block, one.first.max_block,
                    one.second->name);
  };
  std::sort(named.begin(), named.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  std::vector<const PartDirectory*> sorted;
  for (const auto& [name, part] : named) {
    if (!sorted.empty() && sorted.back()->name == part->name) {
      return Status(Code::kInvalidArgument,
                    fmt::format("two produced parts have one name: {}", part->name));
    }
    sorted.push_back(part);
  }
  return sorted;
}

// A job store that was lost, or a second one, counts the attempts from 1 again: what stands under
// this attempt's prefix belongs to another, and may be published. The next attempt has a new
// prefix.
Status CheckUnused(const Context& ctx, ObjectStore& store, std::string_view finished_prefix) {
  PF_ASSIGN(const ListPage page, store.List(ctx, fmt::format("{}/", finished_prefix), {}));
  if (page.objects.empty()) return {};
  return AnotherAttempts(page.objects.front().key);
}

// Asks the store itself: a reply to an upload is not yet an object.
Status CheckStored(const Context& ctx, ObjectStore& store, const std::string& key,
                   int64_t size_bytes) {
  PF_ASSIGN(const ObjectInfo info, store.Stat(ctx, key));
  if (info.size_bytes == size_bytes) return {};
  return Status(Code::kCorruption,
                fmt::format("store keeps {} of {} bytes of {}", info.size_bytes, size_bytes, key))
      .Explain(7006, key, "the part is rewritten by another attempt");
}

}  // namespace

Result<std::vector<ArtifactPart>> PackParts(const Context& ctx, ObjectStore& store,
                                            std::string_view finished_prefix,
                                            const std::vector<PartDirectory>& parts, int threads) {
  PF_ASSIGN(const std::vector<const PartDirectory*> sorted, InBlockOrder(parts));
  PF_TRY(CheckUnused(ctx, store, finished_prefix));
  std::vector<ArtifactPart> packed(sorted.size());
  const auto pack = [&](const Context& inner, int64_t index) -> Status {
    const auto i = static_cast<size_t>(index);
    PF_ASSIGN(packed[i], PackPart(inner, store, finished_prefix, *sorted[i]));
    return {};
  };
  PF_TRY(ParallelFor(ctx, static_cast<int64_t>(sorted.size()), threads, pack));
  const auto check = [&](const Context& inner, int64_t index) {
    const ArtifactPart& part = packed[static_cast<size_t>(index)];
    return CheckStored(inner, store, TarKey(finished_prefix, part.name), part.tar_size_bytes);
  };
  PF_TRY(ParallelFor(ctx, static_cast<int64_t>(packed.size()), threads, check));
  return packed;
}

Result<MetaReference> UploadMeta(const Context& ctx, ObjectStore& store, std::string_view meta_key,
                                 const ArtifactMeta& meta) {
  const std::string text = FormatArtifactMeta(meta);
  PF_ASSIGN(const ArtifactMeta read_back, ParseArtifactMeta(text));
  if (read_back != meta) {
    return Status(Code::kInternal, "the artifact's description does not read back as written");
  }
  PF_ASSIGN(const PutOutcome put,
            store.PutIfAbsent(ctx, meta_key, std::as_bytes(std::span(text.data(), text.size()))));
  if (put == PutOutcome::kAlreadyThere) {
    PF_ASSIGN(const std::string present, ReadObject(ctx, store, meta_key));
    if (present != text) return AnotherAttempts(std::string(meta_key));
  }
  PF_TRY(CheckStored(ctx, store, std::string(meta_key), static_cast<int64_t>(text.size())));
  PF_FAULT(ctx, "clickhouse.meta_uploaded");
  return MetaReference{.key = std::string(meta_key), .sha256 = Sha256Hex(text)};
}

}  // namespace partforge::clickhouse
