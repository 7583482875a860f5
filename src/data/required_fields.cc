#include "data/required_fields.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace partforge::data {
namespace {

using arrow::Type;

const arrow::DataType& StorageOf(const arrow::DataType& type) {
  const arrow::DataType* storage = &type;
  while (storage->id() == Type::EXTENSION) {
    storage = static_cast<const arrow::ExtensionType&>(*storage).storage_type().get();
  }
  return *storage;
}

// Where a value of the array counts; empty: everywhere.
using Alive = std::vector<bool>;

Alive AliveIn(const arrow::Array& array, const Alive& above) {
  if (array.null_count() == 0) return above;
  Alive alive(static_cast<size_t>(array.length()));
  for (int64_t i = 0; i < array.length(); ++i) {
    const auto at = static_cast<size_t>(i);
    alive[at] = array.IsValid(i) && (above.empty() || above[at]);
  }
  return alive;
}

// `row` counts in the array looked at.
std::optional<MissingValue> FindInside(const arrow::Array& array, const Alive& above);

std::optional<MissingValue> FindIn(const arrow::Field& field, const arrow::Array& values,
                                   const Alive& alive) {
  if (!field.nullable() && values.null_count() > 0) {
    for (int64_t i = 0; i < values.length(); ++i) {
      if (values.IsNull(i) && (alive.empty() || alive[static_cast<size_t>(i)])) {
        return MissingValue{.row = i, .field = field.name()};
      }
    }
  }
  auto found = FindInside(values, alive);
  if (found) found->field = field.name() + "." + found->field;
  return found;
}

template <class List>
std::optional<MissingValue> FindInList(const List& list, const Alive& alive) {
  const auto begin = static_cast<int64_t>(list.value_offset(0));
  const auto end = static_cast<int64_t>(list.value_offset(list.length()));
  const auto values = list.values()->Slice(begin, end - begin);
  Alive inside;
  if (!alive.empty()) {
    inside.resize(static_cast<size_t>(end - begin));
    for (int64_t i = 0; i < list.length(); ++i) {
      if (!alive[static_cast<size_t>(i)]) continue;
      const auto at = inside.begin() + (list.value_offset(i) - begin);
      std::fill(at, at + list.value_length(i), true);
    }
  }
  auto found = FindIn(*list.type()->field(0), *values, inside);
  if (!found) return found;
  int64_t row = 0;
  while (list.value_offset(row + 1) - begin <= found->row) ++row;
  found->row = row;
  return found;
}

std::optional<MissingValue> FindInside(const arrow::Array& array, const Alive& above) {
  if (array.length() == 0 || !HasRequiredFields(*array.type())) return std::nullopt;
  switch (array.type_id()) {
    case Type::EXTENSION:
      return FindInside(*static_cast<const arrow::ExtensionArray&>(array).storage(), above);
    case Type::STRUCT: {
      const auto& record = static_cast<const arrow::StructArray&>(array);
      const Alive alive = AliveIn(array, above);
      for (int i = 0; i < record.num_fields(); ++i) {
        auto found = FindIn(*record.type()->field(i), *record.field(i), alive);
        if (found) return found;
      }
      return std::nullopt;
    }
    case Type::LIST:
    case Type::MAP:
      return FindInList(static_cast<const arrow::ListArray&>(array), AliveIn(array, above));
    case Type::LARGE_LIST:
      return FindInList(static_cast<const arrow::LargeListArray&>(array), AliveIn(array, above));
    default:
      return std::nullopt;
  }
}

}  // namespace

bool HasRequiredFields(const arrow::DataType& type) {
  const arrow::DataType& storage = StorageOf(type);
  // The entries of a map are never null; what is in them may be.
  const bool is_map = storage.id() == Type::MAP;
  return std::any_of(storage.fields().begin(), storage.fields().end(), [&](const auto& field) {
    return (!field->nullable() && !is_map) || HasRequiredFields(*field->type());
  });
}

std::optional<MissingValue> FindMissingValue(const arrow::Array& array) {
  return FindInside(array, {});
}

}  // namespace partforge::data
