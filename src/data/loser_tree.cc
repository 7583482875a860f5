#include "data/loser_tree.h"

#include <arrow/record_batch.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace partforge::data {

Result<LoserTree> LoserTree::Make(const Context& ctx,
                                  const std::vector<std::unique_ptr<BatchSource>>& sources,
                                  const KeyEncoder& keys, TieOrder ties, Galloping galloping) {
  if (sources.empty() || sources.size() > kSourcesMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("merge: of 1 to {} sources, not {}", kSourcesMax, sources.size()));
  }
  LoserTree tree(keys, ties, galloping);
  for (const auto& source : sources) {
    Cursor cursor;
    cursor.source = source.get();
    PF_TRY(tree.Load(ctx, cursor));
    tree.cursors_.push_back(std::move(cursor));
  }
  // A full tree; the leaves beyond the sources are never there.
  tree.leaves_ = std::bit_ceil(sources.size());
  std::vector<size_t> winners(2 * tree.leaves_);
  tree.losers_.assign(tree.leaves_, 0);
  for (size_t i = 0; i < tree.leaves_; ++i) winners[tree.leaves_ + i] = i;
  for (size_t node = tree.leaves_ - 1; node > 0; --node) {
    const size_t a = winners[2 * node], b = winners[2 * node + 1];
    const bool a_wins = tree.Before(a, b);
    winners[node] = a_wins ? a : b;
    tree.losers_[node] = a_wins ? b : a;
  }
  tree.losers_[0] = winners[1];
  return tree;
}

Status LoserTree::Load(const Context& ctx, Cursor& cursor) {
  const bool is_first = cursor.batch == nullptr;
  if (!is_first) {
    cursor.last_key = std::string((*cursor.keys)[cursor.keys->count() - 1]);
  }
  cursor.batch = nullptr;
  cursor.keys = nullptr;
  cursor.row = 0;
  PF_ASSIGN(cursor.batch, cursor.source->Next(ctx));
  if (cursor.batch == nullptr) return {};
  PF_ASSIGN(EncodedKeys keys, keys_->Encode(*cursor.batch));
  const auto key_bytes =
      static_cast<int64_t>(keys.bytes.size() + keys.count() * sizeof(keys.ends[0]));
  auto grant = ctx.memory.TryReserve(key_bytes);
  if (!grant.ok()) {
    return Status(Code::kExhausted,
                  fmt::format("merge {} sources: no memory for keys of {} bytes (more memory: "
                              "--memory, or merge fewer at once)",
                              cursors_.size(), key_bytes));
  }
  const auto charged = std::make_shared<const ChargedKeys>(
      ChargedKeys{.keys = std::move(keys), .grant = std::move(grant).value()});
  cursor.keys = std::shared_ptr<const EncodedKeys>(charged, &charged->keys);
  // A source out of order would silently break what rests on the merge: one look a row is cheap.
  std::string_view before = is_first ? std::string_view() : std::string_view(cursor.last_key);
  uint64_t prefix_before = KeyPrefix(before);
  for (size_t i = 0; i < cursor.keys->count(); ++i) {
    const std::string_view key = (*cursor.keys)[i];
    const uint64_t prefix = KeyPrefix(key);
    if (prefix < prefix_before || (prefix == prefix_before && key < before)) {
      return Status(
          Code::kCorruption,
          fmt::format("merge: a source is not sorted by its keys at row {} of a batch", i));
    }
    before = key;
    prefix_before = prefix;
  }
  cursor.prefix = KeyPrefix(cursor.key());
  return {};
}

bool LoserTree::RowBefore(size_t source, size_t row, size_t other) const {
  const Cursor& b = cursors_[other];
  const std::string_view key = (*cursors_[source].keys)[row];
  const uint64_t prefix = KeyPrefix(key);
  if (prefix != b.prefix) return prefix < b.prefix;
  const int order = key.compare(b.key());
  if (order != 0) return order < 0;
  return ties_ == TieOrder::kFirstSourceFirst ? source < other : source > other;
}

bool LoserTree::Before(size_t a, size_t b) const {
  const bool a_ends = a >= cursors_.size() || cursors_[a].is_at_end();
  const bool b_ends = b >= cursors_.size() || cursors_[b].is_at_end();
  if (a_ends || b_ends) return !a_ends || (b_ends && a < b);
  const Cursor& x = cursors_[a];
  const Cursor& y = cursors_[b];
  if (x.prefix != y.prefix) return x.prefix < y.prefix;
  const int order = x.key().compare(y.key());
  if (order != 0) return order < 0;
  return ties_ == TieOrder::kFirstSourceFirst ? a < b : a > b;
}

// The path of the source is played again from its leaf up.
void LoserTree::Replay(size_t source) {
  size_t winner = source;
  for (size_t node = (leaves_ + source) / 2; node > 0; node /= 2) {
    if (Before(losers_[node], winner)) std::swap(losers_[node], winner);
  }
  losers_[0] = winner;
}

// The second best of all is the best of those that lost to the winner itself.
size_t LoserTree::Challenger() const {
  const size_t winner = losers_[0];
  size_t best = leaves_;  // never there
  for (size_t node = (leaves_ + winner) / 2; node > 0; node /= 2) {
    if (Before(losers_[node], best)) best = losers_[node];
  }
  return best;
}

std::optional<std::string_view> LoserTree::NextForeignKey() const {
  const size_t challenger = Challenger();
  if (challenger >= cursors_.size() || cursors_[challenger].is_at_end()) return std::nullopt;
  return cursors_[challenger].key();
}

// How many rows of the source, from its current one on and at most `limit`, come before the current
// row of the other: in steps that double, then by halving.
size_t LoserTree::RowsBefore(size_t source, size_t other, size_t limit) const {
  const size_t begin = cursors_[source].row;
  size_t known = 1;  // the current row is the winner
  size_t step = 1;
  while (known + step <= limit && RowBefore(source, begin + known + step - 1, other)) {
    known += step;
    step *= 2;
  }
  size_t low = known, high = std::min(known + step - 1, limit);
  while (low < high) {
    const size_t middle = low + (high - low + 1) / 2;
    if (RowBefore(source, begin + middle - 1, other)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

Result<const SortedRun*> LoserTree::Next(const Context& ctx, int64_t rows_max) {
  PF_CHECK(rows_max > 0, "a run of no row");
  if (winner_before_ < cursors_.size()) {
    Cursor& before = cursors_[winner_before_];
    if (before.run.batch != before.batch) before.run = {};  // that batch is through
  }
  const size_t winner = losers_[0];
  if (winner >= cursors_.size() || cursors_[winner].is_at_end()) return nullptr;
  Cursor& cursor = cursors_[winner];
  const size_t limit = std::min(cursor.keys->count() - cursor.row, static_cast<size_t>(rows_max));
  size_t count = 1;
  // Looking for the end of a run costs more than a match: only a source that wins twice has one.
  if (galloping_ == Galloping::kOn && winner == winner_before_) {
    const size_t challenger = Challenger();
    const bool is_alone = challenger >= cursors_.size() || cursors_[challenger].is_at_end();
    count = is_alone ? limit : RowsBefore(winner, challenger, limit);
  }
  winner_before_ = winner;
  SortedRun& run = cursor.run;
  // Counting references costs as much as a match.
  if (run.batch != cursor.batch) {
    run.source = winner;
    run.batch = cursor.batch;
    run.keys = cursor.keys;
  }
  run.begin = static_cast<int64_t>(cursor.row);
  run.count = static_cast<int64_t>(count);
  cursor.row += count;
  if (cursor.row == cursor.keys->count()) {
    PF_TRY(Load(ctx, cursor));
  } else {
    cursor.prefix = KeyPrefix(cursor.key());
  }
  Replay(winner);
  return &run;
}

}  // namespace partforge::data
