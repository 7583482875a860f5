#pragma once

#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/random.h"
#include "data/batch_source.h"

namespace partforge::data::testing {

// Random Arrow data for tests over whole schemas.
struct RandomColumn {
  double null_share = 0.1;
  int64_t distinct_max = 0;  // 0 = every value new
};

// Flat and nested columns of all types we write, each with a field id.
std::shared_ptr<arrow::Schema> RandomSchema(Random& random, int columns, bool with_nested);
std::shared_ptr<arrow::Array> RandomArray(Random& random,
                                          const std::shared_ptr<arrow::DataType>& type,
                                          int64_t length, bool nullable, RandomColumn column = {});
// Columns differ in how many nulls and how many distinct values they have.
std::shared_ptr<arrow::RecordBatch> RandomBatch(Random& random,
                                                const std::shared_ptr<arrow::Schema>& schema,
                                                int64_t rows);

// All batches of a source as one table with one chunk a column; fails the test on an error.
std::shared_ptr<arrow::Table> ReadAll(const Context& ctx, BatchSource& source);
std::shared_ptr<arrow::Table> ToTable(
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches);
// Rows of the table whose number is in `rows`, in that order.
std::shared_ptr<arrow::Table> TakeRows(const arrow::Table& table, const std::vector<int64_t>& rows);
// Fails the test, with the first difference, unless both have the same rows in the same order.
// Metadata of schemas is not compared; NaNs are equal.
void ExpectSameRows(const arrow::Table& got, const arrow::Table& wanted);

}  // namespace partforge::data::testing
