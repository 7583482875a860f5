#pragma once

#include "base/json.h"
#include "data/avro_value.h"

namespace partforge::app {

// A record of an Avro file as a person reads it: objects of its fields, dates and times in ISO
// form, decimals with their point, bytes as 0x…; numbers that JSON's readers would round, and
// floats that are none, as text. In a union of several types the value says which it is of, as far
// as it can. Pure.
JsonDoc AvroRecordJson(const data::AvroType& type, const data::AvroValue& value);

}  // namespace partforge::app
