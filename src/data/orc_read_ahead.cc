#include "data/orc_read_ahead.h"

#include <algorithm>

namespace partforge::data {
namespace {

constexpr int64_t kTailBytes = int64_t{64} << 10;

int64_t TailBegin(const ReadAheadSource& object) {
  return object.size_bytes() - std::min(kTailBytes, object.size_bytes());
}

}  // namespace

void FetchOrcTail(const Context& ctx, ReadAheadSource& object) {
  const int64_t begin = TailBegin(object);
  object.Fetch(ctx, {{.offset = begin, .length = object.size_bytes() - begin}});
}

OrcReadAhead::OrcReadAhead(ReadAheadSource& object, StreamWindows& windows, std::string file_name,
                           std::vector<FileRange> stripes, int64_t stream_bytes_max)
    : object_(object),
      windows_(windows),
      file_name_(std::move(file_name)),
      stripes_(std::move(stripes)),
      stream_bytes_max_(stream_bytes_max),
      is_fetched_(stripes_.size(), false) {}

void OrcReadAhead::ChooseColumns(const OrcTail& tail, std::vector<size_t> indices,
                                 const std::vector<int>& columns, Columns share) {
  tail_ = &tail;
  indices_ = std::move(indices);
  share_ = share;
  const OrcType& root = tail.types[0];
  is_wanted_.assign(tail.types.size(), false);
  is_wanted_[0] = true;
  for (const int column : columns) {
    if (static_cast<size_t>(column) >= root.children.size()) continue;
    const uint32_t begin = root.children[static_cast<size_t>(column)];
    for (uint32_t i = begin; i < tail.types[begin].end; ++i) is_wanted_[i] = true;
  }
}

void OrcReadAhead::Start(const Context& ctx, size_t n) {
  if (n > 0) object_.DropBefore(stripes_[n - 1].end());
  // What had no room beside the one before is tried once more.
  for (size_t i = n; i < std::min(n + 2, stripes_.size()); ++i) {
    if (!is_fetched_[i]) is_fetched_[i] = FetchStripe(ctx, i);
  }
  // So that nobody waits for it when its turn comes.
  if (share_ == Columns::kSome && n + 2 < stripes_.size()) FetchFooter(ctx, n + 2);
  std::vector<FileRange> streams;
  if (!is_fetched_[n] && tail_ != nullptr) streams = StreamsOf(ctx, n);
  windows_.Watch(ctx, std::move(streams), stream_bytes_max_);
}

bool OrcReadAhead::FetchStripe(const Context& ctx, size_t n) {
  if (tail_ != nullptr && share_ == Columns::kSome) {
    FetchFooter(ctx, n);
    return object_.Fetch(ctx, StreamsOf(ctx, n));
  }
  return IsInTail(stripes_[n]) || object_.Fetch(ctx, {stripes_[n]});
}

bool OrcReadAhead::IsInTail(const FileRange& range) const {
  return range.offset >= TailBegin(object_);
}

FileRange OrcReadAhead::FooterOf(size_t n) const {
  return tail_->stripes[indices_[n]].footer();
}

void OrcReadAhead::FetchFooter(const Context& ctx, size_t n) {
  if (n < next_footer_) return;
  next_footer_ = n + 1;
  if (!IsInTail(FooterOf(n))) object_.Fetch(ctx, {FooterOf(n)});
}

std::vector<FileRange> OrcReadAhead::StreamsOf(const Context& ctx, size_t n) {
  std::vector<FileRange> ranges;
  auto footer = ReadOrcStripeFooter(ctx, object_, *tail_, indices_[n], file_name_);
  if (!footer.ok()) {
    // The decoder says what is wrong with it.
    Ignore(ctx, footer.status(), "a stripe is read without reading ahead");
    return ranges;
  }
  for (const OrcStream& stream : footer->streams) {
    if (is_wanted_[stream.column] && !IsInTail(stream.bytes)) ranges.push_back(stream.bytes);
  }
  return ranges;
}

}  // namespace partforge::data
