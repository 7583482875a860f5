#include "engine/query_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/clickhouse_codes.h"

namespace partforge {
namespace {

constexpr int64_t kSessionIdleSecondsMax = 3'600;

// URL parameters that are not settings.
constexpr std::array kOwnParameters = std::to_array<std::string_view>(
    {"query", "query_id", "database", "default_format", "session_id", "session_timeout",
     "session_check", "close_session", "user", "password", "quota_key", "role", "wait_end_of_query",
     "buffer_size", "compress", "decompress", "stacktrace", "client_protocol_version"});

bool IsSettingName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool IsEqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned>(a[i]) ^ static_cast<unsigned>(b[i]);
  return difference == 0;
}

// The password of "Basic <base64 of user:password>"; empty when it is malformed.
std::string PasswordOfBasic(std::string_view header) {
  constexpr std::string_view kScheme = "Basic ";
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (!header.starts_with(kScheme)) return "";
  std::string text;
  uint32_t bits = 0;
  int bit_count = 0;
  for (const char c : header.substr(kScheme.size())) {
    if (c == '=') break;
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return "";
    bits = (bits << 6U) | static_cast<uint32_t>(digit);
    bit_count += 6;
    if (bit_count < 8) continue;
    bit_count -= 8;
    text += static_cast<char>((bits >> static_cast<unsigned>(bit_count)) & 0xFFU);
  }
  const size_t colon = text.find(':');
  return colon == std::string::npos ? "" : text.substr(colon + 1);
}

}  // namespace

Status DoorStatus(int number, std::string_view text, std::string_view name) {
  return FromClickHouseCode(number,
                            fmt::format("Code: {}. DB::Exception: {}. ({})", number, text, name));
}

Status EngineCredentials::Check(const HttpServerRequest& request) const {
  if (password.empty() && password_sha256.empty()) return {};
  std::vector<std::string> given = {request.Query("password")};
  if (const auto key = request.headers.find("x-clickhouse-key"); key != request.headers.end()) {
    given.push_back(key->second);
  }
  if (const auto basic = request.headers.find("authorization"); basic != request.headers.end()) {
    given.push_back(PasswordOfBasic(basic->second));
  }
  for (const std::string& key : given) {
    const bool is_it = password.empty() ? IsEqualInConstantTime(Sha256Hex(key), password_sha256)
                                        : IsEqualInConstantTime(key, password.Reveal());
    if (is_it) return {};
  }
  return DoorStatus(
      516, "Authentication failed: password is incorrect, or there is no user with such name",
      "AUTHENTICATION_FAILED");
}

Result<QueryRequest> ReadQueryRequest(const HttpServerRequest& request, std::string drawn_id) {
  QueryRequest ask;
  ask.begin_ms = MonotonicMs();
  ask.may_write = request.method == "POST";
  ask.sql = request.Query("query");
  ask.query_id = request.Query("query_id");
  ask.database = request.Query("database");
  ask.session_id = request.Query("session_id");
  ask.session_must_exist = request.Query("session_check") == "1";
  ask.waits_for_end = request.Query("wait_end_of_query") == "1";
  ask.format = request.Query("default_format");
  const auto header = [&request](const char* name, std::string& value) {
    const auto found = request.headers.find(name);
    if (found != request.headers.end()) value = found->second;
  };
  header("x-clickhouse-format", ask.format);
  header("x-clickhouse-database", ask.database);
  if (ask.query_id.empty()) ask.query_id = std::move(drawn_id);
  if (const std::string text = request.Query("session_timeout"); !text.empty()) {
    int64_t seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size() || seconds < 0 ||
        seconds > kSessionIdleSecondsMax) {
      return DoorStatus(374, fmt::format("Invalid session timeout: {}", text),
                        "INVALID_SESSION_TIMEOUT");
    }
    ask.session_idle_ms = seconds * 1'000;
  }
  if (request.Query("compress") == "1" || request.Query("decompress") == "1") {
    return DoorStatus(48, "Compressed bodies are not supported by this engine", "NOT_IMPLEMENTED");
  }
  for (const auto& [name, value] : request.query) {
    if (name.starts_with("param_")) {
      ask.parameters.emplace_back(name.substr(6), value);
    } else if (std::find(kOwnParameters.begin(), kOwnParameters.end(), name) ==
               kOwnParameters.end()) {
      if (!IsSettingName(name))
        return DoorStatus(115, fmt::format("Unknown setting {}", name), "UNKNOWN_SETTING");
      ask.settings.emplace_back(name, value);
    }
  }
  return ask;
}

}  // namespace partforge
