#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace partforge {

struct Status::State {
  Code code = Code::kInternal;
  std::string message;
  Explanation explanation;
};

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kAlreadyExists:
      return "already_exists";
    case Code::kRefused:
      return "refused";
    case Code::kConflict:
      return "conflict";
    case Code::kLeaseLost:
      return "lease_lost";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kExhausted:
      return "exhausted";
    case Code::kCorruption:
      return "corruption";
    case Code::kUnknownOutcome:
      return "unknown_outcome";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

Status::Status(Code code, std::string message)
    : state_(std::make_shared<const State>(State{code, std::move(message), {}})) {}

Code Status::code() const {
  PF_CHECK(!ok(), "code() of an OK Status");
  return state_->code;
}

const std::string& Status::message() const {
  PF_CHECK(!ok(), "message() of an OK Status");
  return state_->message;
}

const Explanation& Status::explanation() const {
  PF_CHECK(!ok(), "explanation() of an OK Status");
  return state_->explanation;
}

Status Status::With(std::string_view doing) && {
  if (ok()) return std::move(*this);
  State next = *state_;
  next.message = std::string(doing) + ": " + next.message;
  state_ = std::make_shared<const State>(std::move(next));
  return std::move(*this);
}

Status Status::Explain(int pf_number, std::string where, std::string what_to_do) && {
  if (ok()) return std::move(*this);
  State next = *state_;
  next.explanation = Explanation{pf_number, std::move(where), std::move(what_to_do)};
  state_ = std::make_shared<const State>(std::move(next));
  return std::move(*this);
}

Status Status::As(Code code) && {
  if (ok()) return std::move(*this);
  State next = *state_;
  next.code = code;
  state_ = std::make_shared<const State>(std::move(next));
  return std::move(*this);
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  std::string text(CodeName(state_->code));
  text += ": " + state_->message;
  if (!state_->explanation.where.empty()) text += " [" + state_->explanation.where + "]";
  return text;
}

namespace internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "partforge: %s:%d: check failed: %s: %s\n", file, line, condition,
               message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal
}  // namespace partforge
