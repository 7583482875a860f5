#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "base/units.h"

namespace partforge {
namespace {

std::string_view LevelName(LogLevel level, bool is_upper) {
  switch (level) {
    case LogLevel::kTrace:
      return is_upper ? "TRACE" : "trace";
    case LogLevel::kDebug:
      return is_upper ? "DEBUG" : "debug";
    case LogLevel::kInfo:
      return is_upper ? "INFO " : "info";
    case LogLevel::kWarn:
      return is_upper ? "WARN " : "warn";
    case LogLevel::kError:
      return is_upper ? "ERROR" : "error";
    case LogLevel::kOff:
      break;
  }
  return is_upper ? "OFF  " : "off";
}

void AppendEscaped(std::string* out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          *out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          *out += c;
        }
    }
  }
}

bool IsPlain(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '\\' || c == '=') return false;
  }
  return true;
}

void AppendQuoted(std::string* out, std::string_view text) {
  *out += '"';
  AppendEscaped(out, text);
  *out += '"';
}

struct ValueWriter {
  std::string* out;
  bool is_json;
  void operator()(std::string_view text) const {
    if (is_json || !IsPlain(text)) {
      AppendQuoted(out, text);
    } else {
      *out += text;
    }
  }
  void operator()(int64_t value) const { *out += fmt::format("{}", value); }
  void operator()(uint64_t value) const { *out += fmt::format("{}", value); }
  void operator()(double value) const {
    *out += std::isfinite(value) ? fmt::format("{}", value) : std::string("null");
  }
  void operator()(bool value) const { *out += value ? "true" : "false"; }
};

void WriteToStderr(std::string_view line) {
  // A log that cannot be written has nowhere to complain to.
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written <= 0) return;
    line.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

Log::Log(Clock& clock, Options options) : Log(clock, std::move(options), WriteToStderr) {}

Log::Log(Clock& clock, Options options, Sink sink)
    : clock_(clock), options_(std::move(options)), sink_(std::move(sink)) {}

void Log::Write(LogLevel level, std::string_view message, LogFields fields) {
  if (!IsOn(level)) return;
  const bool is_json = options_.format == LogFormat::kJson;
  std::string line;
  const ValueWriter write_value{&line, is_json};
  const auto key = [&](std::string_view name) {
    if (is_json) {
      line += ',';
      AppendQuoted(&line, name);
      line += ':';
    } else {
      line += ' ';
      line += name;
      line += '=';
    }
  };
  const std::string now = FormatTime(clock_.NowMs());
  if (is_json) {
    line = fmt::format(R"({{"ts":"{}","level":"{}","msg":)", now, LevelName(level, false));
    AppendQuoted(&line, message);
  } else {
    line = fmt::format("{} {} ", now, LevelName(level, true));
    AppendEscaped(&line, message);
  }
  for (const auto& [name, value] : options_.common) {
    key(name);
    write_value(std::string_view(value));
  }
  for (const LogField& field : fields) {
    key(field.key);
    std::visit(write_value, field.value);
  }
  line += is_json ? "}\n" : "\n";
  line = Redact(line);
  sink_(line);
}

void Log::AddSecret(std::string_view secret) {
  if (secret.size() < 4) return;
  // Lines carry values escaped: the secret is looked for as it would stand there, too.
  std::string escaped;
  AppendEscaped(&escaped, secret);
  const std::lock_guard lock(mutex_);
  if (escaped != secret) secrets_.push_back(std::move(escaped));
  secrets_.emplace_back(secret);
}

std::string Log::Redact(std::string_view text) const {
  std::string out(text);
  const std::lock_guard lock(mutex_);
  for (const std::string& secret : secrets_) {
    for (size_t at = out.find(secret); at != std::string::npos; at = out.find(secret, at)) {
      out.replace(at, secret.size(), "***");
      at += 3;
    }
  }
  return out;
}

}  // namespace partforge
