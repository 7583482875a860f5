#include "store/local_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "store/local_path.h"
#include "store/store_metrics.h"

namespace partforge {
namespace {

constexpr size_t kPageObjectsMax = 1000;
constexpr size_t kSinkBufferBytes = 256 << 10;
constexpr size_t kCopyBufferBytes = 1 << 20;
constexpr int kPublishTriesMax =
    64;  // each lost to a Delete that removed the emptied folder meanwhile
constexpr size_t kSegmentBytesMax = 255;  // NAME_MAX

int64_t ModifiedMs(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

Status CheckLocalKey(std::string_view key) {
  PF_TRY(CheckObjectKey(key));
  for (std::string_view rest = key; !rest.empty();) {
    const size_t length = std::min(rest.find('/'), rest.size());
    if (length > kSegmentBytesMax) {
      return Status(Code::kInvalidArgument,
                    fmt::format("a segment of an object key is longer than {} bytes: {}…",
                                kSegmentBytesMax, rest.substr(0, 64)));
    }
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return {};
}

Status NoSuchObject(std::string_view key) {
  return Status(Code::kNotFound, fmt::format("no such object: {}", key))
      .Explain(2126, std::string(key), "check --bucket, --prefix and --s3-endpoint");
}

Status ExplainDisk(Status status, const std::filesystem::path& root) {
  if (status.ok() || status.explanation().pf_number != 7007) return status;
  return std::move(status).Explain(7007, root.string(),
                                   "free space on the disk that holds this folder");
}

template <class T>
Result<T> Counted(const Context& ctx, std::string_view op, Result<T> result) {
  CountObjectRequest(ctx, op, result.ok() ? Status() : result.status());
  return result;
}

Status Counted(const Context& ctx, std::string_view op, Status status) {
  CountObjectRequest(ctx, op, status);
  return status;
}

// One attempt to give a temporary file its name. 0, or errno.
int NameOnce(int temp_folder_fd, const std::string& temp, int folder_fd, const std::string& name,
             bool replaces) {
  if (replaces) {
    return renameat(temp_folder_fd, temp.c_str(), folder_fd, name.c_str()) == 0 ? 0 : errno;
  }
  if (linkat(temp_folder_fd, temp.c_str(), folder_fd, name.c_str(), 0) == 0) return 0;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  // A file system without hard links: the rename that does not replace decides just as well.
  const int refused =
      renameat2(temp_folder_fd, temp.c_str(), folder_fd, name.c_str(), RENAME_NOREPLACE);
  return refused == 0 ? 0 : errno;
}

}  // namespace

class LocalStore::Source final : public ByteSource {
 public:
  Source(UniqueFd fd, int64_t size_bytes) : fd_(std::move(fd)), size_bytes_(size_bytes) {}
  int64_t size_bytes() const override { return size_bytes_; }
  Status ReadAt(const Context& ctx, int64_t offset, std::span<std::byte> out) override {
    PF_TRY(ctx.CheckStop("reading an object"));
    if (offset < 0 || offset > size_bytes_ ||
        static_cast<int64_t>(out.size()) > size_bytes_ - offset) {
      return Status(Code::kCorruption, fmt::format("read {} bytes at {} of an object of {} bytes",
                                                   out.size(), offset, size_bytes_));
    }
    PF_TRY(partforge::ReadAt(fd_.get(), offset, out));
    CountObjectBytesRead(ctx, static_cast<int64_t>(out.size()));
    return {};
  }

 private:
  const UniqueFd fd_;
  const int64_t size_bytes_;
};

class LocalStore::Sink final : public ByteSink {
 public:
  Sink(LocalStore& store, std::string key, TempFile temp)
      : store_(store), key_(std::move(key)), temp_(std::move(temp)) {
    buffer_.reserve(kSinkBufferBytes);
  }
  ~Sink() override {
    if (!is_named_) store_.temp_.Abandon(temp_.name);
  }

  Status Append(const Context& ctx, std::span<const std::byte> bytes) override {
    PF_TRY(ctx.CheckStop("writing an object"));
    if (has_failed_)
      return Status(Code::kInternal, "append to an object whose write failed: " + key_);
    has_failed_ = true;  // until proven otherwise
    if (buffer_.size() + bytes.size() > kSinkBufferBytes) PF_TRY(Flush());
    if (bytes.size() >= kSinkBufferBytes) {
      PF_TRY(Write(bytes));
    } else {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }
    size_bytes_ += static_cast<int64_t>(bytes.size());
    has_failed_ = false;
    return {};
  }

  Result<ObjectInfo> Close(const Context& ctx) override {
    Result<ObjectInfo> info = CloseOnce(ctx);
    CountObjectRequest(ctx, "put", info.ok() ? Status() : info.status());
    if (info.ok()) CountObjectBytesWritten(ctx, size_bytes_);
    return info;
  }

 private:
  Result<ObjectInfo> CloseOnce(const Context& ctx) {
    PF_TRY(ctx.CheckStop("closing an object"));
    if (has_failed_)
      return Status(Code::kInternal, "close of an object whose write failed: " + key_);
    has_failed_ = true;  // a second Close is a bug of the caller
    PF_TRY(Flush());
    if (fsync(temp_.fd.get()) != 0) return Failed(ErrnoStatus(errno, "sync object " + key_));
    struct stat info {};
    if (fstat(temp_.fd.get(), &info) != 0) return Failed(ErrnoStatus(errno, "stat object " + key_));
    PF_TRY(temp_.fd.Close());
    PF_FAULT(ctx, "store.temp_written");
    PF_TRY(store_.PublishTemp(ctx, temp_.name, key_, Publish::kReplace));
    is_named_ = true;
    return ObjectInfo{
        .key = key_, .size_bytes = size_bytes_, .modified_ms = ModifiedMs(info), .etag = {}};
  }
  Status Flush() {
    PF_TRY(Write(buffer_));
    buffer_.clear();
    return {};
  }
  Status Write(std::span<const std::byte> bytes) {
    return Failed(WriteAll(temp_.fd.get(), bytes).With("write object " + key_));
  }
  Status Failed(Status status) const { return ExplainDisk(std::move(status), store_.root_); }

  LocalStore& store_;
  const std::string key_;
  TempFile temp_;
  std::vector<std::byte> buffer_;
  int64_t size_bytes_ = 0;
  bool has_failed_ = false;
  bool is_named_ = false;
};

Result<std::unique_ptr<LocalStore>> LocalStore::Open(const std::filesystem::path& root) {
  if (!root.is_absolute()) {
    return Status(Code::kInvalidArgument,
                  "the folder of a local store is not absolute: " + root.string());
  }
  return std::make_unique<LocalStore>(root.lexically_normal());
}

LocalStore::LocalStore(const std::filesystem::path& root) : root_(root), temp_(root) {}

Result<std::unique_ptr<ByteSource>> LocalStore::Open(const Context& ctx, std::string_view key) {
  Result<UniqueFd> fd = Counted(ctx, "head", OpenObject(key, O_RDONLY | O_NONBLOCK));
  if (!fd.ok()) return std::move(fd).status();
  struct stat info {};
  if (fstat(fd->get(), &info) != 0) return ErrnoStatus(errno, fmt::format("stat object {}", key));
  return std::unique_ptr<ByteSource>(std::make_unique<Source>(std::move(fd).value(), info.st_size));
}

Result<std::unique_ptr<ByteSink>> LocalStore::Create(const Context& ctx, std::string_view key,
                                                     int64_t) {
  PF_TRY(CheckLocalKey(key));
  PF_TRY(ctx.CheckStop("creating an object"));
  Result<TempFile> temp = temp_.Create(ctx);
  if (!temp.ok()) return ExplainDisk(std::move(temp).status(), root_);
  return std::unique_ptr<ByteSink>(
      std::make_unique<Sink>(*this, std::string(key), std::move(temp).value()));
}

Result<PutOutcome> LocalStore::PutIfAbsent(const Context& ctx, std::string_view key,
                                           std::span<const std::byte> bytes) {
  PF_TRY(CheckLocalKey(key));
  PF_TRY(ctx.CheckStop("creating an object"));
  Result<PutOutcome> outcome = Counted(ctx, "put_if_absent", PutNew(ctx, key, bytes));
  if (outcome.ok() && *outcome == PutOutcome::kCreated) {
    CountObjectBytesWritten(ctx, static_cast<int64_t>(bytes.size()));
  }
  return outcome;
}

Result<PutOutcome> LocalStore::PutNew(const Context& ctx, std::string_view key,
                                      std::span<const std::byte> bytes) {
  PF_ASSIGN(TempFile temp, temp_.Create(ctx));
  const auto publish = [&]() -> Result<PutOutcome> {
    PF_TRY(WriteAll(temp.fd.get(), bytes).With(fmt::format("write object {}", key)));
    if (fsync(temp.fd.get()) != 0) return ErrnoStatus(errno, fmt::format("sync object {}", key));
    PF_FAULT(ctx, "store.new_temp_written");
    return PublishTemp(ctx, temp.name, key, Publish::kIfAbsent);
  };
  Result<PutOutcome> outcome = publish();
  if (!outcome.ok()) {
    temp_.Abandon(temp.name);
    return ExplainDisk(std::move(outcome).status(), root_);
  }
  // link(2) leaves the temporary name beside the new one. When removing it fails, age removes it.
  Ignore(ctx, temp_.Remove(temp.name), "a temporary file is removed by age later");
  return outcome;
}

Result<PutOutcome> LocalStore::PublishTemp(const Context& ctx, const std::string& temp,
                                           std::string_view key, Publish mode) {
  PF_ASSIGN(const UniqueFd root, OpenRoot());
  PF_ASSIGN(const UniqueFd temp_folder, temp_.OpenFolder());
  const std::string_view folder = FolderOfKey(key);
  const std::string name(NameOfKey(key));
  for (int tries = 0; tries < kPublishTriesMax; ++tries) {
    Result<UniqueFd> folder_fd = MakeFolderBelow(root.get(), folder);
    if (!folder_fd.ok()) {
      if (folder_fd.status().code() == Code::kNotFound)
        continue;  // a Delete took an empty folder away
      return std::move(folder_fd).status().With(fmt::format("publish object {}", key));
    }
    const int error_number =
        NameOnce(temp_folder.get(), temp, folder_fd->get(), name, mode == Publish::kReplace);
    if (error_number == ENOENT &&
        faccessat(temp_folder.get(), temp.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
      continue;  // likewise
    }
    if (error_number == EEXIST && mode == Publish::kIfAbsent) {
      // Whoever was first may not have synced yet; what we report as there must stay there.
      PF_TRY(SyncFolder(folder_fd->get(), folder));
      return PutOutcome::kAlreadyThere;
    }
    if (error_number == EISDIR || error_number == ENOTEMPTY) {
      return Status(Code::kInvalidArgument,
                    fmt::format("a folder stands where an object should: {}", key));
    }
    if (error_number != 0) return ErrnoStatus(error_number, fmt::format("publish object {}", key));
    PF_FAULT(ctx, "store.object_named");
    PF_TRY(SyncFolder(folder_fd->get(), folder));
    PF_FAULT(ctx, "store.object_published");
    return PutOutcome::kCreated;
  }
  return Status(Code::kUnavailable,
                fmt::format("the folder of an object keeps vanishing: {}", key));
}

Result<ObjectInfo> LocalStore::Stat(const Context& ctx, std::string_view key) {
  Result<UniqueFd> fd = Counted(ctx, "head", OpenObject(key, O_PATH));
  if (!fd.ok()) return std::move(fd).status();
  struct stat info {};
  if (fstat(fd->get(), &info) != 0) return ErrnoStatus(errno, fmt::format("stat object {}", key));
  return ObjectInfo{.key = std::string(key),
                    .size_bytes = info.st_size,
                    .modified_ms = ModifiedMs(info),
                    .etag = {}};
}

Result<ListPage> LocalStore::List(const Context& ctx, std::string_view prefix,
                                  std::optional<std::string> after) {
  PF_TRY(CheckKeyPrefix(prefix));
  Result<UniqueFd> root = OpenRoot();
  if (!root.ok()) {
    if (root.status().code() == Code::kNotFound) return ListPage{};
    return std::move(root).status();
  }
  return Counted(ctx, "list", listing_.List(ctx, root->get(), prefix, after, kPageObjectsMax));
}

Status LocalStore::Link(const Context& ctx, std::string_view from, std::string_view to) {
  PF_TRY(CheckLocalKey(from));
  PF_TRY(CheckLocalKey(to));
  return Counted(ctx, "copy", LinkOver(ctx, from, to).With(fmt::format("link {} to {}", from, to)));
}

Status LocalStore::LinkOver(const Context& ctx, std::string_view from, std::string_view to) {
  PF_ASSIGN(const UniqueFd object, OpenObject(from, O_PATH));
  if (from == to) return {};
  // link(2) does not replace: the second name is made among the temporary files and renamed over.
  PF_ASSIGN(TempFile temp, temp_.Create(ctx));
  PF_TRY(temp.fd.Close());
  PF_TRY(temp_.Remove(temp.name));
  PF_ASSIGN(const UniqueFd temp_folder, temp_.OpenFolder());
  const std::string opened = fmt::format("/proc/self/fd/{}", object.get());
  if (linkat(AT_FDCWD, opened.c_str(), temp_folder.get(), temp.name.c_str(), AT_SYMLINK_FOLLOW) !=
      0) {
    if (errno == EPERM || errno == EMLINK || errno == EXDEV || errno == EOPNOTSUPP ||
        errno == ENOENT) {
      return CopyBytes(ctx, from, to);
    }
    return ErrnoStatus(errno, "make a hard link");
  }
  const Result<PutOutcome> outcome = PublishTemp(ctx, temp.name, to, Publish::kReplace);
  // rename(2) between two names of one file does nothing: the temporary one would stay.
  Ignore(ctx, temp_.Remove(temp.name), "a temporary file is removed by age later");
  return outcome.ok() ? Status() : outcome.status();
}

Status LocalStore::CopyBytes(const Context& ctx, std::string_view from, std::string_view to) {
  PF_ASSIGN(const std::unique_ptr<ByteSource> source, Open(ctx, from));
  PF_ASSIGN(const std::unique_ptr<ByteSink> sink, Create(ctx, to, source->size_bytes()));
  std::vector<std::byte> buffer(kCopyBufferBytes);
  for (int64_t offset = 0; offset < source->size_bytes();) {
    const int64_t rest = source->size_bytes() - offset;
    const std::span<std::byte> piece =
        std::span(buffer).first(std::min(buffer.size(), static_cast<size_t>(rest)));
    PF_TRY(source->ReadAt(ctx, offset, piece));
    PF_TRY(sink->Append(ctx, piece));
    offset += static_cast<int64_t>(piece.size());
  }
  PF_TRY(sink->Close(ctx));
  return {};
}

Status LocalStore::Delete(const Context& ctx, std::span<const std::string> keys) {
  Status first;
  const auto note = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  Result<UniqueFd> root = OpenRoot();
  if (!root.ok() && root.status().code() != Code::kNotFound) return std::move(root).status();
  // Whoever gives up a file deletes what else he wrote: his dropped sink's bytes go with that.
  temp_.RemoveAbandoned(ctx);

  std::set<std::string, std::less<>> touched;  // folders that lost an object
  for (const std::string& key : keys) {
    if (Status stop = ctx.CheckStop("deleting objects"); !stop.ok()) {
      note(std::move(stop));
      break;
    }
    Status status = CheckLocalKey(key);
    if (status.ok() && root.ok()) status = DeleteOne(ctx, root->get(), key);
    if (status.ok()) touched.emplace(FolderOfKey(key));
    note(Counted(ctx, "delete", std::move(status)));
  }
  // Deepest first, so that a folder emptied by the removal of its last folder goes too.
  while (root.ok() && !touched.empty()) {
    const std::string folder = std::move(touched.extract(std::prev(touched.end())).value());
    if (!folder.empty()) {
      const Result<UniqueFd> above = OpenFolderBelow(root->get(), FolderOfKey(folder));
      if (above.ok() &&
          unlinkat(above->get(), std::string(NameOfKey(folder)).c_str(), AT_REMOVEDIR) == 0) {
        touched.emplace(FolderOfKey(folder));
        continue;
      }
    }
    if (const Result<UniqueFd> fd = OpenFolderBelow(root->get(), folder); fd.ok()) {
      note(SyncFolder(fd->get(), folder));
    }
  }
  return first;
}

Status LocalStore::DeleteOne(const Context& ctx, int root_fd, std::string_view key) const {
  const Result<UniqueFd> folder = OpenFolderBelow(root_fd, FolderOfKey(key));
  if (!folder.ok()) {
    if (IsAbsence(root_fd, key, folder.status())) return {};
    return Status(folder.status()).With(fmt::format("delete object {}", key));
  }
  if (unlinkat(folder->get(), std::string(NameOfKey(key)).c_str(), 0) != 0) {
    const int error_number = errno;
    // A folder of this name is no object. Linux says EISDIR, POSIX EPERM.
    struct stat info {};
    const bool is_folder = fstatat(folder->get(), std::string(NameOfKey(key)).c_str(), &info,
                                   AT_SYMLINK_NOFOLLOW) == 0 &&
                           S_ISDIR(info.st_mode);
    if (error_number == ENOENT || is_folder) return {};
    return ErrnoStatus(error_number, fmt::format("delete object {}", key));
  }
  PF_FAULT(ctx, "store.object_deleted");
  return {};
}

Result<int64_t> LocalStore::SweepLeftovers(const Context& ctx, std::string_view,
                                           int64_t age_ms_min) {
  temp_.RemoveAbandoned(ctx);
  return temp_.Sweep(ctx, age_ms_min);
}

Result<UniqueFd> LocalStore::OpenRoot() const {
  Result<UniqueFd> root = OpenFile(root_, O_PATH | O_DIRECTORY);
  if (root.ok() || root.status().code() == Code::kNotFound) return root;
  // Whatever is in the way, no object is to blame.
  constexpr int kRefusedByMachine = 7015;
  return std::move(root).status().Explain(kRefusedByMachine, root_.string(),
                                          "check --bucket and --s3-endpoint");
}

Result<UniqueFd> LocalStore::OpenObject(std::string_view key, int flags) const {
  PF_TRY(CheckObjectKey(key));
  if (!CheckLocalKey(key).ok()) return NoSuchObject(key);  // no file can have this name
  Result<UniqueFd> root = OpenRoot();
  if (!root.ok()) {
    if (root.status().code() == Code::kNotFound) return NoSuchObject(key);
    return root;
  }
  Result<UniqueFd> fd = OpenBeneath(root->get(), key, flags | O_NOFOLLOW);
  if (!fd.ok()) {
    if (IsAbsence(root->get(), key, fd.status())) return NoSuchObject(key);
    return std::move(fd).status().With(fmt::format("open object {}", key));
  }
  struct stat info {};
  if (fstat(fd->get(), &info) != 0) return ErrnoStatus(errno, fmt::format("stat object {}", key));
  if (!S_ISREG(info.st_mode)) return NoSuchObject(key);
  return fd;
}

}  // namespace partforge
