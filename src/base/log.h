#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"

namespace partforge {

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat : uint8_t { kText, kJson };

// One key and value of an event. Values are copied only when the event is written.
struct LogField {
  std::string_view key;
  std::variant<std::string_view, int64_t, uint64_t, double, bool> value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  template <std::same_as<bool> B>
  LogField(std::string_view k, B v) : key(k), value(v) {}
  template <std::signed_integral I>
  LogField(std::string_view k, I v) : key(k), value(static_cast<int64_t>(v)) {}
  template <std::unsigned_integral U>
  requires(!std::same_as<U, bool>) LogField(std::string_view k, U v)
      : key(k), value(static_cast<uint64_t>(v)) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
};
using LogFields = std::initializer_list<LogField>;

// Event lines on stderr (specs: user-experience §4.4): one event a line, a fixed lower-case message
// and keys.
//   text  2026-10-11T12:13:14.123Z INFO  part attached job=job-1 part=all_1_1_0 took_ms=12
//   json  {"ts":"…","level":"info","msg":"part attached","job":"job-1",…}
// Never data rows, never secrets: every value passes the redactor of known secrets (AddSecret).
// Thread-safe.
class Log {
 public:
  using Sink = std::function<void(std::string_view line)>;  // a whole line with its '\n'

  struct Options {
    LogLevel level = LogLevel::kInfo;
    LogFormat format = LogFormat::kText;
    std::vector<std::pair<std::string, std::string>>
        common;  // keys on every line, e.g. component=worker
  };

  // Writes to file descriptor 2 with one write a line.
  Log(Clock& clock, Options options);
  Log(Clock& clock, Options options, Sink sink);

  void Trace(std::string_view message, LogFields fields = {}) {
    Write(LogLevel::kTrace, message, fields);
  }
  void Debug(std::string_view message, LogFields fields = {}) {
    Write(LogLevel::kDebug, message, fields);
  }
  void Info(std::string_view message, LogFields fields = {}) {
    Write(LogLevel::kInfo, message, fields);
  }
  void Warn(std::string_view message, LogFields fields = {}) {
    Write(LogLevel::kWarn, message, fields);
  }
  void Error(std::string_view message, LogFields fields = {}) {
    Write(LogLevel::kError, message, fields);
  }
  void Write(LogLevel level, std::string_view message, LogFields fields);

  bool IsOn(LogLevel level) const { return level >= options_.level; }
  // From now on `secret` is printed as *** wherever it would appear. Values shorter than 4 bytes
  // are not taken.
  void AddSecret(std::string_view secret);
  // Replaces known secrets in `text`; also used by the error renderer.
  std::string Redact(std::string_view text) const;

 private:
  Clock& clock_;
  const Options options_;
  const Sink sink_;
  mutable std::mutex mutex_;
  std::vector<std::string> secrets_;  // guarded by mutex_
};

// A value that prints as ***; the plain text is taken out only where it is sent.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  const std::string& Reveal() const { return value_; }
  bool empty() const { return value_.empty(); }

 private:
  std::string value_;
};

}  // namespace partforge
