#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace partforge::testing {

// What a FakeEngine was asked.
struct Asked {
  std::string sql;  // without outer white space
  QueryOptions options;
  std::string rows;  // of an Insert, all of them
};

// An Engine that answers from a script. A statement is matched by its beginning (after outer white
// space). Rules for one use come first, in the order they were given; among lasting rules the last
// given wins. A statement without a rule is kInternal "nobody expected". Thread-safe; handlers run
// outside the lock.
class FakeEngine final : public Engine {
 public:
  using Handler = std::function<Result<QueryOutcome>(const Asked&)>;

  FakeEngine& Answer(std::string prefix, std::string text);
  FakeEngine& AnswerOnce(std::string prefix, std::string text);
  FakeEngine& Fail(std::string prefix, Status status);
  FakeEngine& FailOnce(std::string prefix, Status status);
  FakeEngine& Handle(std::string prefix, Handler handler);
  FakeEngine& HandleOnce(std::string prefix, Handler handler);
  void set_data_path(std::filesystem::path path) { data_path_ = std::move(path); }

  std::vector<Asked> asked() const;
  // Statements that begin with `prefix`, as asked.
  std::vector<Asked> AskedFor(std::string_view prefix) const;
  std::vector<std::string> killed() const;
  // Once-rules that nobody used.
  std::vector<std::string> unused() const;

  Result<QueryOutcome> Query(const Context& ctx, std::string_view sql,
                             const QueryOptions& options) override;
  Result<std::unique_ptr<RowStream>> Select(
      const Context& ctx, std::string_view sql, std::string_view format,
      const QueryOptions& options) override;  // the rule's text, as one block
  Result<QueryOutcome> Insert(const Context& ctx, std::string_view sql, RowStream& rows,
                              const QueryOptions& options) override;
  Status Kill(const Context& ctx, std::string_view query_id) override;
  std::optional<std::filesystem::path> data_path() const override { return data_path_; }

 private:
  struct Rule {
    std::string prefix;
    Handler handler;
  };
  Result<QueryOutcome> Play(Asked asked);

  mutable std::mutex mutex_;
  std::deque<Rule> once_;            // guarded by mutex_
  std::vector<Rule> always_;         // guarded by mutex_
  std::vector<Asked> asked_;         // guarded by mutex_
  std::vector<std::string> killed_;  // guarded by mutex_
  std::optional<std::filesystem::path> data_path_;
};

}  // namespace partforge::testing
