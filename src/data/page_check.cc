#include "data/page_check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "data/column_metrics.h"

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

Status Wrong(const ChunkPages& pages, std::string found) {
  return Status(Code::kCorruption, fmt::format("check {}: {}", pages.what(), found));
}

// Below a list writers differ in whether an empty one is a null.
bool NullsAreCounted(const LeafColumn& column) {
  return column.max_repetition_level == 0;
}

template <class T>
T Load(std::string_view bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Calls with each value that occurs; of a page of indices with each entry once.
template <class Take>
void ForEachValue(const LeafColumn& column, const DecodedPage& page,
                  const DictionaryValues* dictionary, Take take) {
  if (!page.is_indexed) {
    PageValues values(column, page, dictionary);
    for (int64_t i = 0; i < page.value_count; ++i) take(values.Next());
    return;
  }
  if (page.value_count == 0) return;
  std::vector<bool> is_seen(dictionary->entries.size(), false);
  for (const uint32_t index : page.indices) {
    if (is_seen[index]) continue;
    is_seen[index] = true;
    take(dictionary->Bare(column, index));
  }
}

// The range by the order of what `read` makes of bytes; what it makes nothing of (NaN) is passed
// over.
template <class Value, class Read>
std::optional<ValueRange> RangeBy(const LeafColumn& column, const DecodedPage& page,
                                  const DictionaryValues* dictionary, Read read) {
  ValueRange range;
  std::optional<Value> min, max;
  ForEachValue(column, page, dictionary, [&](std::string_view bytes) {
    std::optional<Value> value = read(bytes);
    if (!value) return;
    if (!max || *max < *value) {
      range.max = bytes;
      max = *value;
    }
    if (!min || *value < *min) {
      range.min = bytes;
      min = std::move(value);
    }
  });
  return min ? std::optional(range) : std::nullopt;
}

template <class T>
std::optional<ValueRange> RangeOfNumbers(const LeafColumn& column, const DecodedPage& page,
                                         const DictionaryValues* dictionary) {
  return RangeBy<T>(column, page, dictionary, [](std::string_view bytes) -> std::optional<T> {
    const T value = Load<T>(bytes);
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return std::nullopt;
    }
    return value;
  });
}

}  // namespace

std::optional<ValueRange> RangeOfPage(const LeafColumn& column, const DecodedPage& page,
                                      const DictionaryValues* dictionary) {
  if (!column.scalar) return std::nullopt;
  switch (column.type) {
    case ParquetType::kInt32:
      return column.is_unsigned ? RangeOfNumbers<uint32_t>(column, page, dictionary)
                                : RangeOfNumbers<int32_t>(column, page, dictionary);
    case ParquetType::kInt64:
      return column.is_unsigned ? RangeOfNumbers<uint64_t>(column, page, dictionary)
                                : RangeOfNumbers<int64_t>(column, page, dictionary);
    case ParquetType::kFloat:
      return RangeOfNumbers<float>(column, page, dictionary);
    case ParquetType::kDouble:
      return RangeOfNumbers<double>(column, page, dictionary);
    default:
      break;
  }
  if (*column.scalar == ScalarType::kString || *column.scalar == ScalarType::kBytes) {
    return RangeBy<std::string_view>(
        column, page, dictionary,
        [](std::string_view bytes) -> std::optional<std::string_view> { return bytes; });
  }
  return RangeBy<Scalar>(column, page, dictionary,
                         [&](std::string_view bytes) { return ScalarOfPlain(column, bytes); });
}

Status CheckCounts(const ThriftValue& tree, const LeafColumn& column, std::string_view what) {
  PF_ASSIGN(const ChunkView view, ViewChunk(tree, what));
  const ThriftValue* const stats =
      tree.Find(column_chunk::kMetaData)->Find(column_metadata::kStatistics);
  if (stats == nullptr || stats->type() != ThriftType::kStruct) return {};
  PF_ASSIGN(const int64_t nulls, IntOr(*stats, statistics::kNullCount, 0, what));
  const int64_t nulls_max = column.max_definition_level == 0 ? 0 : view.num_values;
  if (nulls >= 0 && nulls <= nulls_max) return {};
  return Status(Code::kCorruption, fmt::format("check {}, column {}: {} nulls among {} values",
                                               what, column.dotted_path, nulls, view.num_values));
}

Result<ChunkClaims> ChunkClaims::Read(const Context& ctx, const ChunkPages& pages,
                                      const ThriftValue& tree, BoundOrder order) {
  const LeafColumn& column = pages.column();
  PF_TRY(CheckCounts(tree, column, pages.what()));
  ChunkClaims claims;
  PF_ASSIGN(ColumnMetrics metrics, MetricsOfChunk(column, tree, order, pages.what()));
  if (metrics.lower) claims.chunk_.lower = std::move(metrics.lower->value);
  if (metrics.upper) claims.chunk_.upper = std::move(metrics.upper->value);
  if (NullsAreCounted(column)) claims.null_count_ = metrics.null_count;
  PF_ASSIGN(claims.index_, pages.ReadIndex(ctx));
  claims.page_bounds_hold_ = BoundsHold(column, order);
  if (claims.index_ && claims.index_->null_counts && claims.null_count_) {
    const auto& counts = *claims.index_->null_counts;
    PF_TRY(claims.CheckNulls(pages, std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  }
  return claims;
}

ChunkClaims::Bounds ChunkClaims::BoundsOfPage(const LeafColumn& column, size_t number) const {
  if (!index_ || !page_bounds_hold_ || index_->null_pages[number]) return {};
  const auto bound = [&](const std::string& bytes) -> std::optional<Bound> {
    auto value = ScalarOfPlain(column, bytes);
    if (!value) return std::nullopt;
    return Bound{.value = std::move(*value)};
  };
  Bounds bounds;
  if (auto lower = CleanLower(bound(index_->min_values[number]))) bounds.lower = lower->value;
  if (auto upper = CleanUpper(bound(index_->max_values[number]))) bounds.upper = upper->value;
  return bounds;
}

Status ChunkClaims::Check(const ChunkPages& pages, size_t number, const DecodedPage& page) const {
  const LeafColumn& column = pages.column();
  const int64_t nulls = page.header.num_values - page.value_count;
  if (index_) {
    if (index_->null_pages[number] && page.value_count > 0) {
      return Wrong(pages,
                   fmt::format("page {} is one of nulls by the page index and holds {} values",
                               number, page.value_count));
    }
    if (index_->null_counts && NullsAreCounted(column) && (*index_->null_counts)[number] != nulls) {
      return Wrong(pages, fmt::format("page {} holds {} nulls, the page index says {}", number,
                                      nulls, (*index_->null_counts)[number]));
    }
  }
  const auto range = RangeOfPage(column, page, pages.dictionary());
  if (!range) return {};
  const auto min = ScalarOfPlain(column, range->min), max = ScalarOfPlain(column, range->max);
  if (!min || !max) return {};
  const Bounds own = BoundsOfPage(column, number);
  for (const auto& [bounds, whose] : {std::pair(&own, "page"), std::pair(&chunk_, "chunk")}) {
    // The values themselves are the user's, and have no place in messages and logs.
    if (bounds->lower && *min < *bounds->lower) {
      return Wrong(pages,
                   fmt::format("page {} holds a value below the minimum of its {}", number, whose));
    }
    if (bounds->upper && *bounds->upper < *max) {
      return Wrong(pages,
                   fmt::format("page {} holds a value above the maximum of its {}", number, whose));
    }
  }
  return {};
}

Status ChunkClaims::CheckNulls(const ChunkPages& pages, int64_t nulls) const {
  if (!null_count_ || *null_count_ == nulls) return {};
  return Wrong(pages,
               fmt::format("its pages hold {} nulls, its statistics say {}", nulls, *null_count_));
}

}  // namespace partforge::data
