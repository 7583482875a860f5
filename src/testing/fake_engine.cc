#include "testing/fake_engine.h"

#include <algorithm>

namespace partforge::testing {
namespace {

std::string Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kBlank) - begin + 1));
}

FakeEngine::Handler Say(std::string text) {
  return [text = std::move(text)](const Asked&) -> Result<QueryOutcome> {
    QueryOutcome outcome;
    outcome.text = text;
    return outcome;
  };
}
FakeEngine::Handler Say(Status status) {
  return [status = std::move(status)](const Asked&) -> Result<QueryOutcome> { return status; };
}

class OneBlock final : public RowStream {
 public:
  explicit OneBlock(std::string text) : text_(std::move(text)) {}
  Result<std::optional<std::string>> NextBlock(const Context&) override {
    if (text_.empty()) return std::optional<std::string>();
    return std::optional<std::string>(std::exchange(text_, {}));
  }

 private:
  std::string text_;
};

}  // namespace

FakeEngine& FakeEngine::Answer(std::string prefix, std::string text) {
  return Handle(std::move(prefix), Say(std::move(text)));
}
FakeEngine& FakeEngine::AnswerOnce(std::string prefix, std::string text) {
  return HandleOnce(std::move(prefix), Say(std::move(text)));
}
FakeEngine& FakeEngine::Fail(std::string prefix, Status status) {
  return Handle(std::move(prefix), Say(std::move(status)));
}
FakeEngine& FakeEngine::FailOnce(std::string prefix, Status status) {
  return HandleOnce(std::move(prefix), Say(std::move(status)));
}
FakeEngine& FakeEngine::Handle(std::string prefix, Handler handler) {
  const std::lock_guard lock(mutex_);
  always_.push_back({std::move(prefix), std::move(handler)});
  return *this;
}
FakeEngine& FakeEngine::HandleOnce(std::string prefix, Handler handler) {
  const std::lock_guard lock(mutex_);
  once_.push_back({std::move(prefix), std::move(handler)});
  return *this;
}

std::vector<Asked> FakeEngine::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}
std::vector<Asked> FakeEngine::AskedFor(std::string_view prefix) const {
  std::vector<Asked> matching = asked();
  std::erase_if(matching, [prefix](const Asked& one) { return !one.sql.starts_with(prefix); });
  return matching;
}
std::vector<std::string> FakeEngine::killed() const {
  const std::lock_guard lock(mutex_);
  return killed_;
}
std::vector<std::string> FakeEngine::unused() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> prefixes;
  for (const Rule& rule : once_) prefixes.push_back(rule.prefix);
  return prefixes;
}

Result<QueryOutcome> FakeEngine::Play(Asked asked) {
  Handler handler;
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(asked);
    const auto matches = [&asked](const Rule& rule) { return asked.sql.starts_with(rule.prefix); };
    if (const auto once = std::find_if(once_.begin(), once_.end(), matches); once != once_.end()) {
      handler = std::move(once->handler);
      once_.erase(once);
    } else if (const auto rule = std::find_if(always_.rbegin(), always_.rend(), matches);
               rule != always_.rend()) {
      handler = rule->handler;
    }
  }
  if (!handler) return Status(Code::kInternal, "fake engine: nobody expected: " + asked.sql);
  return handler(asked);
}

Result<QueryOutcome> FakeEngine::Query(const Context& ctx, std::string_view sql,
                                       const QueryOptions& options) {
  PF_TRY(ctx.CheckStop("ask the fake engine"));
  return Play({.sql = Trim(sql), .options = options, .rows = ""});
}

Result<std::unique_ptr<RowStream>> FakeEngine::Select(const Context& ctx, std::string_view sql,
                                                      std::string_view,
                                                      const QueryOptions& options) {
  PF_ASSIGN(QueryOutcome outcome, Query(ctx, sql, options));
  return std::unique_ptr<RowStream>(std::make_unique<OneBlock>(std::move(outcome.text)));
}

Result<QueryOutcome> FakeEngine::Insert(const Context& ctx, std::string_view sql, RowStream& rows,
                                        const QueryOptions& options) {
  Asked asked{.sql = Trim(sql), .options = options, .rows = ""};
  while (true) {
    PF_ASSIGN(const auto block, rows.NextBlock(ctx));
    if (!block) break;
    asked.rows += *block;
  }
  return Play(std::move(asked));
}

Status FakeEngine::Kill(const Context&, std::string_view query_id) {
  const std::lock_guard lock(mutex_);
  killed_.emplace_back(query_id);
  return {};
}

}  // namespace partforge::testing
