#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace partforge {

// A file of log lines that another program may rotate: each line is one append, and Reopen goes on
// in a new file of the same name (user-experience §4.4). Thread-safe.
class LogFile {
 public:
  // Appends to what is there; a new file is readable by its owner and group only. As errno says.
  static Result<std::unique_ptr<LogFile>> Open(std::filesystem::path path);
  // A line that cannot be written is lost: a log has nowhere to complain to.
  void Write(std::string_view line);
  // On failure the old file stays in use.
  Status Reopen();

 private:
  LogFile(std::filesystem::path path, UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}
  const std::filesystem::path path_;
  std::mutex mutex_;
  UniqueFd file_;  // guarded by mutex_
};

}  // namespace partforge
