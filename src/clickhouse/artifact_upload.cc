#include "clickhouse/artifact_upload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/parallel_for.h"
#include "clickhouse/part_files.h"
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
  std::vector<const PartDirectory*> sorted;
  for (const PartDirectory& part : parts) sorted.push_back(&part);
  std::sort(sorted.begin(), sorted.end(),
            [](const PartDirectory* a, const PartDirectory* b) { return a->name < b->name; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->name != sorted[i - 1]->name) continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("two produced parts have one name: {}", sorted[i]->name));
  }
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
  PF_TRY(WriteObject(ctx, store, meta_key, text));
  PF_TRY(CheckStored(ctx, store, std::string(meta_key), static_cast<int64_t>(text.size())));
  PF_FAULT(ctx, "clickhouse.meta_uploaded");
  return MetaReference{.key = std::string(meta_key), .sha256 = Sha256Hex(text)};
}

}  // namespace partforge::clickhouse
