#include "clickhouse/artifact_fetch.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "clickhouse/part_name.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kMetaBytesMax = int64_t{64} << 20;
constexpr std::string_view kTarEnding = ".tar";

Status Differs(const std::string& key, std::string_view what, std::string_view expected,
               std::string_view found) {
  return Status(Code::kCorruption, fmt::format("{} {} expected, {} found", what, expected, found))
      .Explain(2133, key,
               "the artifact was changed after upload; partforge retry-failed for the part");
}

Status Gone(const Context& ctx, ObjectStore& store, Status status, const std::string& key,
            std::string_view folder) {
  if (status.code() != Code::kNotFound) return status;
  PF_TRY(CheckStoreHoldsJob(ctx, store, key, folder));
  return std::move(status)
      .As(Code::kCorruption)
      .With("fetch a finished part")
      .Explain(2126, key, "the object was removed; partforge retry-failed for the part");
}

Result<std::unique_ptr<ByteSource>> OpenTar(const Context& ctx, ObjectStore& store,
                                            const std::string& key, const ArtifactPart& part) {
  Result<std::unique_ptr<ByteSource>> source = store.Open(ctx, key);
  if (!source.ok()) return Gone(ctx, store, std::move(source).status(), key, "finished");
  if ((*source)->size_bytes() != part.tar_size_bytes) {
    return Differs(key, "size", std::to_string(part.tar_size_bytes),
                   std::to_string((*source)->size_bytes()));
  }
  return source;
}

// Compares what was read with what the description recorded; "" was not recorded.
Status Compare(const std::string& key, const ArtifactPart& part, const ExtractedPart& found) {
  if (!part.tar_sha256.empty() && part.tar_sha256 != found.tar_sha256) {
    return Differs(key, "digest", part.tar_sha256, found.tar_sha256);
  }
  if (!part.checksums_txt_sha256.empty() &&
      part.checksums_txt_sha256 != found.checksums_txt_sha256) {
    return Differs(key, "digest of checksums.txt", part.checksums_txt_sha256,
                   found.checksums_txt_sha256);
  }
  if (!part.hash_of_all_files.empty() && part.hash_of_all_files != found.hash_of_all_files) {
    return Differs(key, "hash of all files", part.hash_of_all_files, found.hash_of_all_files);
  }
  return {};
}

// An archive that holds what no part holds is not the one that was described: damage, like a byte
// that differs, so that the part is made anew instead of being tried again as it is.
Status AsDamage(Status status) {
  const int number = status.explanation().pf_number;
  return number == 8002 || number == 8005 ? std::move(status).As(Code::kCorruption) : status;
}

}  // namespace

Result<ArtifactMeta> FetchMeta(const Context& ctx, ObjectStore& store, std::string_view meta_key,
                               std::string_view meta_sha256) {
  const std::string key(meta_key);
  Result<std::string> text = ReadObject(ctx, store, key, kMetaBytesMax);
  if (!text.ok()) return Gone(ctx, store, std::move(text).status(), key, "meta");
  const std::string found = Sha256Hex(*text);
  if (!meta_sha256.empty() && found != meta_sha256) {
    return Differs(key, "digest", meta_sha256, found);
  }
  return ParseArtifactMeta(*text);
}

Result<std::vector<ArtifactPart>> ListFinishedPrefix(const Context& ctx, ObjectStore& store,
                                                     std::string_view finished_prefix) {
  const std::string prefix = fmt::format("{}/", finished_prefix);
  PF_ASSIGN(const std::vector<ObjectInfo> objects, ListAll(ctx, store, prefix));
  if (objects.empty()) {
    return Gone(ctx, store, Status(Code::kNotFound, "no object below the finished prefix"), prefix,
                "finished");
  }
  std::vector<ArtifactPart> parts;
  for (const ObjectInfo& object : objects) {
    const std::string_view file = std::string_view(object.key).substr(prefix.size());
    const bool is_tar = file.ends_with(kTarEnding);
    const Result<PartName> name =
        ParsePartName(is_tar ? file.substr(0, file.size() - kTarEnding.size()) : "");
    if (!name.ok()) {
      return Status(Code::kRefused,
                    fmt::format("a finished prefix holds something else than parts: {}", file))
          .Explain(8002, object.key,
                   "the prefix is not one of ours or was changed; nothing of it is used");
    }
    ArtifactPart part;
    part.name = name->ToString();
    part.partition_id = name->partition_id;
    part.tar_size_bytes = object.size_bytes;
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<ExtractedPart> FetchPart(const Context& ctx, ObjectStore& store,
                                std::string_view finished_prefix, const ArtifactPart& part,
                                const std::filesystem::path& target,
                                const FetchPartOptions& options) {
  const std::string key = TarKey(finished_prefix, part.name);
  PF_ASSIGN(const std::unique_ptr<ByteSource> source, OpenTar(ctx, store, key, part));
  Result<ExtractedPart> extracted = ExtractPartTar(
      ctx, *source, target,
      {.part_name = part.name, .verify = options.verify, .is_synced = options.is_synced});
  if (!extracted.ok()) return AsDamage(std::move(extracted).status()).With("fetch " + key);
  PF_TRY(Compare(key, part, *extracted));
  return extracted;
}

Result<ExtractedPart> VerifyPartTar(const Context& ctx, ObjectStore& store,
                                    std::string_view finished_prefix, const ArtifactPart& part,
                                    VerifyLevel level) {
  const std::string key = TarKey(finished_prefix, part.name);
  PF_ASSIGN(const std::unique_ptr<ByteSource> source, OpenTar(ctx, store, key, part));
  Result<ExtractedPart> checked =
      CheckPartTar(ctx, *source, {.part_name = part.name, .verify = level});
  if (!checked.ok()) return AsDamage(std::move(checked).status()).With("verify " + key);
  PF_TRY(Compare(key, part, *checked));
  return checked;
}

}  // namespace partforge::clickhouse
