#include "data/chunk_statistics.h"

#include <algorithm>

namespace partforge::data {
namespace {

using namespace parquet_field;  // NOLINT: names of parquet.thrift

// Adds numbers field by field and item by item. False when the shapes differ.
bool AddNumbers(ThriftValue& into, const ThriftValue& other) {
  if (IsInt(into) && IsInt(other)) {
    int64_t sum = 0;
    if (__builtin_add_overflow(into.AsInt(), other.AsInt(), &sum)) return false;
    into = ThriftValue::I64(sum);
    return true;
  }
  const bool is_container = into.type() == ThriftType::kStruct || into.type() == ThriftType::kList;
  if (!is_container || into.type() != other.type()) return false;
  auto& items = into.items();
  if (items.size() != other.items().size()) return false;
  if (into.type() == ThriftType::kStruct) {
    for (const ThriftValue& field : other.items()) {
      ThriftValue* own = into.Find(field.id());
      if (own == nullptr) return false;
      ThriftValue sum = *own;
      if (!AddNumbers(sum, field)) return false;
      into.Set(field.id(), std::move(sum));
    }
    return true;
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (!AddNumbers(items[i], other.items()[i])) return false;
  }
  return true;
}

}  // namespace

void ChunkStatistics::Widen(Side& into, const Side& other, bool is_lower) {
  const auto a = ScalarOfPlain(column_, *into.bytes);
  const auto b = ScalarOfPlain(column_, *other.bytes);
  if (!a || !b) {
    bounds_are_known_ = false;
    return;
  }
  const auto order = *a <=> *b;
  if (std::is_eq(order)) {
    // One chunk that has the value is enough.
    if (other.is_exact.value_or(false)) into.is_exact = true;
    return;
  }
  if (std::is_gt(order) == is_lower) into = other;
}

void ChunkStatistics::Add(const ThriftValue& metadata, BoundOrder order, const Removed& removed) {
  const ThriftValue* stats = metadata.Find(column_metadata::kStatistics);
  const bool has_stats = stats != nullptr && stats->type() == ThriftType::kStruct;
  const int64_t value_count = metadata.Find(column_metadata::kNumValues)->AsInt();

  std::optional<int64_t> nulls;
  if (column_.max_definition_level == 0) {
    nulls = 0;
  } else if (has_stats) {
    const ThriftValue* count = stats->Find(statistics::kNullCount);
    if (count != nullptr && IsInt(*count)) nulls = count->AsInt();
    // A count that cannot be is none.
    if (nulls && (*nulls < 0 || *nulls > value_count)) nulls.reset();
  }
  const bool is_all_null = nulls && *nulls == value_count && value_count > 0;
  if (nulls && removed.nulls) {
    *nulls -= *removed.nulls;
    if (*nulls < 0) nulls.reset();
  } else if (removed.values > 0) {
    nulls.reset();
  }
  if (!null_count_ || !nulls || __builtin_add_overflow(*null_count_, *nulls, &*null_count_)) {
    null_count_.reset();
  }

  if (!is_all_null && bounds_are_known_) {
    Side lower, upper;
    if (has_stats && BoundsHold(column_, order)) {
      lower = {.bytes = BytesField(*stats, statistics::kMinValue),
               .is_exact = BoolField(*stats, statistics::kIsMinValueExact)};
      upper = {.bytes = BytesField(*stats, statistics::kMaxValue),
               .is_exact = BoolField(*stats, statistics::kIsMaxValueExact)};
    }
    if (!lower.bytes || !upper.bytes || !ScalarOfPlain(column_, *lower.bytes) ||
        !ScalarOfPlain(column_, *upper.bytes)) {
      bounds_are_known_ = false;
    } else {
      if (removed.values > 0) lower.is_exact = upper.is_exact = false;
      if (!lower_.bytes) {
        lower_ = std::move(lower);
        upper_ = std::move(upper);
      } else {
        Widen(lower_, lower, true);
        Widen(upper_, upper, false);
      }
    }
  }

  const ThriftValue* sizes = metadata.Find(column_metadata::kSizeStatistics);
  if (is_first_ && sizes != nullptr && removed.values == 0) {
    sizes_ = *sizes;
  } else if (sizes_ && (sizes == nullptr || removed.values > 0 || !AddNumbers(*sizes_, *sizes))) {
    sizes_.reset();
  }
  is_first_ = false;
}

std::optional<ThriftValue> ChunkStatistics::Statistics() const {
  ThriftValue stats = ThriftValue::Struct();
  if (null_count_) stats.Set(statistics::kNullCount, ThriftValue::I64(*null_count_));
  if (bounds_are_known_ && lower_.bytes) {
    stats.Set(statistics::kMaxValue, ThriftValue::Binary(*upper_.bytes));
    stats.Set(statistics::kMinValue, ThriftValue::Binary(*lower_.bytes));
    if (upper_.is_exact)
      stats.Set(statistics::kIsMaxValueExact, ThriftValue::Bool(*upper_.is_exact));
    if (lower_.is_exact)
      stats.Set(statistics::kIsMinValueExact, ThriftValue::Bool(*lower_.is_exact));
  }
  if (stats.items().empty()) return std::nullopt;
  return stats;
}

std::optional<ThriftValue> MakeOffsetIndex(const std::vector<PageEntry>& pages) {
  std::vector<ThriftValue> places;
  std::vector<ThriftValue> texts;
  for (const PageEntry& page : pages) {
    if (!page.first_row) return std::nullopt;
    ThriftValue place = ThriftValue::Struct();
    place.Set(page_location::kOffset, ThriftValue::I64(page.offset));
    place.Set(page_location::kCompressedPageSize,
              ThriftValue::I32(static_cast<int32_t>(page.stored_bytes)));
    place.Set(page_location::kFirstRowIndex, ThriftValue::I64(*page.first_row));
    places.push_back(std::move(place));
    if (page.text_bytes) texts.push_back(ThriftValue::I64(*page.text_bytes));
  }
  if (places.empty()) return std::nullopt;
  const bool has_texts = texts.size() == places.size();
  ThriftValue tree = ThriftValue::Struct();
  tree.Set(offset_index::kPageLocations, ThriftValue::List(ThriftType::kStruct, std::move(places)));
  if (has_texts) {
    tree.Set(offset_index::kUnencodedByteArrayBytes,
             ThriftValue::List(ThriftType::kI64, std::move(texts)));
  }
  return tree;
}

std::string MakeColumnIndex(const LeafColumn& column, const std::vector<PageEntry>& pages) {
  ColumnIndex index;
  index.null_counts.emplace();
  index.repetition_histograms.emplace();
  index.definition_histograms.emplace();
  const auto append = [](std::optional<std::vector<int64_t>>& into,
                         const std::optional<std::vector<int64_t>>& levels) {
    if (into && levels) {
      into->insert(into->end(), levels->begin(), levels->end());
    } else {
      into.reset();
    }
  };
  for (const PageEntry& page : pages) {
    if (!page.has_bounds) return "";
    index.null_pages.push_back(page.is_null_page);
    index.min_values.push_back(page.is_null_page ? "" : page.min);
    index.max_values.push_back(page.is_null_page ? "" : page.max);
    if (index.null_counts && page.null_count) {
      index.null_counts->push_back(*page.null_count);
    } else {
      index.null_counts.reset();
    }
    append(index.repetition_histograms, page.repetition_levels);
    append(index.definition_histograms, page.definition_levels);
  }
  // A list without an entry says nothing, and readers may take it for one of no level.
  if (index.repetition_histograms && index.repetition_histograms->empty()) {
    index.repetition_histograms.reset();
  }
  if (index.definition_histograms && index.definition_histograms->empty()) {
    index.definition_histograms.reset();
  }
  SetBoundaryOrder(index, column);
  return EncodeColumnIndex(index);
}

}  // namespace partforge::data
