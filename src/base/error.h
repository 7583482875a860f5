#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace partforge {

// Says what went wrong in terms of what the caller should do next (ARCHITECTURE.md, "Errors").
enum class Code : uint8_t {
  kInvalidArgument,  // the request is wrong; the same request will always fail
  kNotFound,
  kAlreadyExists,
  kRefused,         // unsafe, unsupported, or needs confirmation: we decline rather than damage
  kConflict,        // somebody else changed the target first; plan again
  kLeaseLost,       // this worker was fenced; drop the work silently
  kUnavailable,     // a backend did not answer; retry with backoff
  kExhausted,       // memory, threads, disk; retry smaller
  kCorruption,      // bytes disagree with their checksum or count; never retry
  kUnknownOutcome,  // the request may have taken effect; look for evidence before anything else
  kCancelled,
  kInternal,  // a bug of ours
};

// Returns the name of `code` as it appears in logs and JSON, e.g. "unavailable".
std::string_view CodeName(Code code);

// What a person is shown beside the message. Empty strings and 0 mean "not set".
struct Explanation {
  int pf_number = 0;       // PFnnnn of base/error_ids.def
  std::string where;       // the object concerned, most telling first
  std::string what_to_do;  // a command to paste, or who can fix it; several lines allowed
};

// The outcome of an operation without a value. Cheap to copy. Immutable.
class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(Code code, std::string message);

  bool ok() const { return state_ == nullptr; }
  Code code() const;                       // requires !ok()
  const std::string& message() const;      // requires !ok()
  const Explanation& explanation() const;  // requires !ok()

  // Puts what we were doing before the message ("attach part 202401_1_1_0: <message>"); keeps the
  // code. On an OK status it does nothing.
  Status With(std::string_view doing) &&;
  // Adds the user's form: PF number, place, remedy. On an OK status it does nothing.
  Status Explain(int pf_number, std::string where, std::string what_to_do) &&;
  // Same failure under another code, e.g. a timeout that turns into an unknown outcome.
  Status As(Code code) &&;

  // Renders "OK" or "unavailable: <message>" for logs and test failures.
  std::string ToString() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);
}  // namespace internal

// Either a T or a failed Status. Holds no third state; reading the wrong side aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  // The analyzer does not see that the variant frees what it was moved into.
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
  Result(T value) : data_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status)
      : data_(std::in_place_index<1>, std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (std::get<1>(data_).ok()) {
      internal::CheckFailed(__FILE__, __LINE__, "!status.ok()", "a Result made of an OK Status");
    }
  }

  bool ok() const { return data_.index() == 0; }
  const T& value() const& { return Checked(); }
  T& value() & {
    Checked();
    return std::get<0>(data_);
  }
  T value() && {
    Checked();
    return std::get<0>(std::move(data_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  // The failure; requires !ok().
  const Status& status() const& {
    if (ok())
      internal::CheckFailed(__FILE__, __LINE__, "!ok()", "status() of a Result with a value");
    return std::get<1>(data_);
  }
  Status status() && { return static_cast<const Result&>(*this).status(); }

 private:
  const T& Checked() const {
    if (!ok()) {
      internal::CheckFailed(__FILE__, __LINE__, "ok()", std::get<1>(data_).ToString());
    }
    return std::get<0>(data_);
  }

  std::variant<T, Status> data_;
};

}  // namespace partforge

#define PF_CONCAT_(a, b) a##b
#define PF_CONCAT(a, b) PF_CONCAT_(a, b)

// PF_TRY(expr): returns early when the Status (or Result) is a failure.
#define PF_TRY(...)                                                  \
  do {                                                               \
    if (auto pf_status_ = (__VA_ARGS__); !pf_status_.ok()) {         \
      return ::partforge::internal::StatusOf(std::move(pf_status_)); \
    }                                                                \
  } while (false)

// PF_ASSIGN(const auto part, ParsePartName(text)): declares or assigns the value, or returns the
// failure.
#define PF_ASSIGN(lhs, ...) PF_ASSIGN_(PF_CONCAT(pf_result_, __LINE__), lhs, __VA_ARGS__)
#define PF_ASSIGN_(tmp, lhs, ...)                \
  auto tmp = (__VA_ARGS__);                      \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()

// A condition whose failure is a bug of ours: aborts, also in release. Never for input, files or
// network.
#define PF_CHECK(condition, message)                                                 \
  do {                                                                               \
    if (!(condition)) {                                                              \
      ::partforge::internal::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
    }                                                                                \
  } while (false)
#ifdef NDEBUG
#define PF_DCHECK(condition, message) \
  do {                                \
  } while (false)
#else
#define PF_DCHECK(condition, message) PF_CHECK(condition, message)
#endif

namespace partforge::internal {
inline Status StatusOf(Status status) {
  return status;
}
template <class T>
Status StatusOf(Result<T> result) {
  return std::move(result).status();
}
}  // namespace partforge::internal
