#include "base/log_file.h"

#include <fcntl.h>

#include <span>
#include <utility>

namespace partforge {
namespace {

Result<UniqueFd> OpenLog(const std::filesystem::path& path) {
  constexpr int kMode = 0640;
  return OpenFile(path, O_WRONLY | O_APPEND | O_CREAT, kMode);
}

}  // namespace

Result<std::unique_ptr<LogFile>> LogFile::Open(std::filesystem::path path) {
  PF_ASSIGN(UniqueFd file, OpenLog(path));
  return std::unique_ptr<LogFile>(new LogFile(std::move(path), std::move(file)));
}

void LogFile::Write(std::string_view line) {
  const std::lock_guard lock(mutex_);
  WriteAll(file_.get(), std::as_bytes(std::span(line))).ok();
}

Status LogFile::Reopen() {
  PF_ASSIGN(UniqueFd file, OpenLog(path_));
  const std::lock_guard lock(mutex_);
  file_ = std::move(file);
  return {};
}

}  // namespace partforge
