#include "job/sql_db.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace partforge {

std::string_view SqlRow::Text(size_t column) const {
  PF_CHECK(column < columns_, fmt::format("column {} of a row of {}", column, columns_));
  const size_t begin = *(ends_ + column - 1);
  return std::string_view(bytes_).substr(begin, ends_[column] - begin);
}

int64_t SqlRow::Int(size_t column) const {
  const std::string_view text = Text(column);
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

double SqlRow::Real(size_t column) const {
  const std::string_view text = Text(column);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Status RunWithRetries(const Context& ctx, const std::function<SqlTry()>& once) {
  SqlTry outcome;
  for (int tries = 1; tries <= kTransactionTriesMax; ++tries) {
    outcome = once();
    if (outcome.status.ok() || !outcome.is_worth_retrying) return outcome.status;
    PF_TRY(ctx.CheckStop("retry a transaction of the state store"));
    // Grows with the tries, so that a crowd spreads out.
    const int64_t bound = std::min<int64_t>(kRetryPauseMsMax, int64_t{4} << tries);
    ctx.clock.SleepMs(
        1 + static_cast<int64_t>(RandomBelow(ctx.random, static_cast<uint64_t>(bound))), ctx.stop);
  }
  return std::move(outcome.status)
      .With(fmt::format("state store, after {} tries", kTransactionTriesMax));
}

}  // namespace partforge
