#pragma once

#include <arrow/type_fwd.h>

#include <functional>
#include <memory>

namespace partforge::data {

// How some program held values is no part of what a file says: dictionaries and views are other
// layouts of the same values.

using TypePtr = std::shared_ptr<arrow::DataType>;

// The same kind of nested type of other fields, as many as it has; the type itself where it has
// none, and for unions and the like, of which no column of a file is.
TypePtr WithFields(const TypePtr& type, const arrow::FieldVector& fields);

// The type with `change` applied to itself, then to what it is made of, at any depth; names,
// nullability and metadata of fields stay. The same pointer when nothing changes.
TypePtr MapTypes(const TypePtr& type, const std::function<TypePtr(const TypePtr&)>& change);

// Values in place of dictionaries.
std::shared_ptr<arrow::Schema> WithoutDictionaries(const std::shared_ptr<arrow::Schema>& schema);
// Offsets in place of views (strings, binaries, lists): the layout whose rows can be gathered,
// spilled and encoded as ranges of bytes. The same pointer when there is none.
std::shared_ptr<arrow::Schema> WithoutViews(const std::shared_ptr<arrow::Schema>& schema);

}  // namespace partforge::data
