#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/files.h"
#include "base/hash.h"
#include "clickhouse/tar_format.h"
#include "clickhouse/tar_reader.h"
#include "store/sequential_reader.h"

namespace partforge::clickhouse {
namespace {

constexpr int64_t kReadBytes = int64_t{4} << 20;
constexpr uint32_t kFileModeAtLeast = 0400, kDirectoryModeAtLeast = 0700;

Status Sync(const std::filesystem::path& path) {
  PF_ASSIGN(const UniqueFd fd, OpenFile(path, O_RDONLY));
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, fmt::format("fsync {}", path.string()));
  return {};
}

// The path below the part's directory; "" for the directory itself.
Result<std::string> BelowPart(std::string_view path, std::string_view part_name) {
  if (path == part_name) return std::string();
  if (path.starts_with(part_name) && path[part_name.size()] == '/') {
    return std::string(path.substr(part_name.size() + 1));
  }
  return Status(Code::kRefused, fmt::format("archive of part {} holds something else: {}",
                                            part_name, path.substr(0, 300)))
      .Explain(8005, std::string(path.substr(0, 300)),
               "the archive is not one of ours or was tampered with; nothing of it is used");
}

// Makes the directories and files of a part below `target`, which it creates.
class PartFolderWriter {
 public:
  PartFolderWriter(std::filesystem::path target, bool is_synced)
      : target_(std::move(target)), is_synced_(is_synced) {}

  Status Open() {
    std::error_code error;
    if (!std::filesystem::create_directory(target_, error)) {
      if (error) return ErrnoStatus(error.value(), fmt::format("make {}", target_.string()));
      return Status(Code::kAlreadyExists,
                    fmt::format("extract a part: target exists: {}", target_.string()));
    }
    PF_ASSIGN(root_, OpenFile(target_, O_RDONLY | O_DIRECTORY));
    return {};
  }
  Status MakeDirectory(const std::string& relative, uint32_t mode) {
    directory_modes_[relative] = mode;
    return relative.empty() ? Status() : MakeDirectories(target_ / relative);
  }
  Status MakeParent(const std::string& relative) {
    const size_t slash = relative.rfind('/');
    return slash == std::string::npos ? Status()
                                      : MakeDirectories(target_ / relative.substr(0, slash));
  }
  // kAlreadyExists when the file is there.
  Result<UniqueFd> Create(const std::string& relative) const {
    return OpenBeneath(root_.get(), relative, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  }
  Status Close(UniqueFd fd, uint32_t mode) const {
    if (fchmod(fd.get(), (mode & 0777) | kFileModeAtLeast) != 0) {
      return ErrnoStatus(errno, "set the mode of an extracted file");
    }
    return fd.Close();
  }
  // After all files: directory modes, and everything to the disk when asked for. The files are
  // synced in one go at the end: the first fsync commits the journal for the others.
  Status Finish(const std::vector<std::string>& files) {
    if (is_synced_) {
      for (const std::string& file : files) PF_TRY(Sync(target_ / file));
    }
    for (auto at = directory_modes_.rbegin(); at != directory_modes_.rend(); ++at) {
      const std::filesystem::path path = at->first.empty() ? target_ : target_ / at->first;
      if (chmod(path.c_str(), (at->second & 0777) | kDirectoryModeAtLeast) != 0) {
        return ErrnoStatus(errno, fmt::format("set the mode of {}", path.string()));
      }
      if (is_synced_) PF_TRY(SyncDirectory(path));
    }
    if (is_synced_) PF_TRY(SyncDirectory(target_.parent_path()));
    return {};
  }

 private:
  const std::filesystem::path target_;
  const bool is_synced_;
  UniqueFd root_;
  std::map<std::string, uint32_t> directory_modes_;
};

// Streams entries through the verifier, and to disk when there is a writer.
class ExtractVisitor final : public TarVisitor {
 public:
  ExtractVisitor(PartFolderWriter* writer, const ExtractOptions& options)
      : writer_(writer), options_(options), verifier_(options.part_name, options.verify) {}

  Status OnDirectory(const Context&, std::string_view path, uint32_t mode) override {
    PF_ASSIGN(const std::string relative, BelowPart(path, options_.part_name));
    return writer_ == nullptr ? Status() : writer_->MakeDirectory(relative, mode);
  }
  Status OnFileBegin(const Context& ctx, std::string_view path, int64_t size_bytes,
                     uint32_t mode) override {
    PF_TRY(ctx.CheckStop("extract a part"));
    PF_ASSIGN(const std::string relative, BelowPart(path, options_.part_name));
    if (relative.empty()) return BelowPart("", options_.part_name).status();
    PF_TRY(verifier_.BeginFile(relative, size_bytes));
    files_.push_back(relative);
    size_bytes_ += size_bytes;
    if (writer_ == nullptr) return {};
    PF_TRY(writer_->MakeParent(relative));
    PF_ASSIGN(file_, writer_->Create(relative));
    mode_ = mode;
    return {};
  }
  Status OnFileBytes(const Context&, std::span<const std::byte> bytes) override {
    PF_TRY(verifier_.Update(bytes));
    return writer_ == nullptr ? Status() : WriteAll(file_.get(), bytes);
  }
  Status OnFileEnd(const Context&) override {
    PF_TRY(verifier_.EndFile());
    return writer_ == nullptr ? Status() : writer_->Close(std::move(file_), mode_);
  }

  PartStreamVerifier& verifier() { return verifier_; }
  const std::vector<std::string>& files() const { return files_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  PartFolderWriter* const writer_;
  const ExtractOptions& options_;
  PartStreamVerifier verifier_;
  UniqueFd file_;
  uint32_t mode_ = 0;
  std::vector<std::string> files_;
  int64_t size_bytes_ = 0;
};

// Feeds the whole archive to the visitor, hashing it on the way.
Result<ExtractedPart> StreamPart(const Context& ctx, ByteSource& source, ExtractVisitor& visitor) {
  TarParser parser(visitor);
  Sha256 hash;
  PF_ASSIGN(const std::unique_ptr<SequentialReader> reader,
            SequentialReader::Open(ctx, source, {.block_bytes = kReadBytes}));
  while (true) {
    PF_TRY(ctx.CheckStop("read an archive"));
    PF_ASSIGN(const std::span<const std::byte> piece, reader->Next(ctx));
    if (piece.empty()) break;
    hash.Update(piece);
    PF_TRY(parser.Feed(ctx, piece));
  }
  PF_TRY(parser.Finish(ctx));
  PF_TRY(visitor.verifier().Finish());
  ExtractedPart part;
  part.tar_size_bytes = source.size_bytes();
  part.tar_sha256 = hash.FinishHex();
  part.file_count = static_cast<int64_t>(visitor.files().size());
  part.size_bytes = visitor.size_bytes();
  part.checksums_txt_sha256 = visitor.verifier().checksums_txt_sha256();
  part.hash_of_all_files = visitor.verifier().checksums().HashOfAllFiles();
  return part;
}

}  // namespace

Result<ExtractedPart> ExtractPartTar(const Context& ctx, ByteSource& source,
                                     const std::filesystem::path& target,
                                     const ExtractOptions& options) {
  PartFolderWriter writer(target, options.is_synced);
  PF_TRY(writer.Open());
  ExtractVisitor visitor(&writer, options);
  PF_ASSIGN(ExtractedPart part, StreamPart(ctx, source, visitor));
  PF_TRY(writer.Finish(visitor.files()));
  return part;
}

Result<ExtractedPart> CheckPartTar(const Context& ctx, ByteSource& source,
                                   const ExtractOptions& options) {
  ExtractVisitor visitor(nullptr, options);
  return StreamPart(ctx, source, visitor);
}

}  // namespace partforge::clickhouse
