#pragma once

#include <memory>
#include <string>

#include "data/arrow_edge.h"
#include "data/avro_arrow_schema.h"
#include "data/batch_source.h"
#include "data/scan_spec.h"
#include "store/object_store.h"

namespace partforge::data {

// Reads an Avro data file; what follows is fetched while a block is decoded. There is nothing to
// prune by, as the format has no statistics: the spec's ranges are not looked at, so that all rows
// come, and it names no row groups (kInvalidArgument). `object` is taken over; `memory` must
// outlive the source and its batches; the context's collaborators outlive the source, as it reads
// ahead on threads.
Result<std::unique_ptr<BatchSource>> OpenAvroSource(const Context& ctx,
                                                    std::unique_ptr<ByteSource> object,
                                                    std::string file_name, ScanSpec spec,
                                                    AvroTimestamps timestamps, ArrowMemory& memory);

}  // namespace partforge::data
