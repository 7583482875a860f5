#pragma once

#include <functional>
#include <string>

#include "data/avro_value.h"
#include "data/file_inspect.h"

namespace partforge::data {

// Fills in what an Avro file says of itself: its schema as a tree, metadata, and its blocks, which
// are walked over. Failures as of AvroFileReader.
Status ReportAvro(const Context& ctx, ByteSource& source, Inspection inspection,
                  FileReport& report);

// Shows the first `count` records of an Avro file as they stand there, each with the type that says
// what it means. A failure of `visit` ends it.
using AvroRecordVisitor = std::function<Status(const AvroType& type, const AvroValue& record)>;
Status ForAvroRecords(const Context& ctx, ByteSource& source, std::string file_name, int64_t count,
                      const AvroRecordVisitor& visit);

// "long", "decimal(9,2)", "record(3 fields)"; a union of null and one type is called like it.
std::string AvroTypeName(const AvroType& type);

}  // namespace partforge::data
