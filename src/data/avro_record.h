#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/avro_binding.h"
#include "data/avro_cursor.h"
#include "data/avro_schema.h"

namespace partforge::data {

namespace internal {
struct AvroDecodeNode;
struct AvroEncodeNode;
}  // namespace internal

// A program that fills C++ structs from records of one file schema: compiled once a file, then run
// for each record without looking at names again. Fields nobody asked for are passed over without
// allocating. Immutable; refers to the schema, which must outlive it.
class AvroDecoder {
 public:
  // kCorruption when the file lacks a required field or has another type than its member can take
  // (promotions int → long → float → double and bytes ↔ string are made; a long fills an int when
  // it fits).
  static Result<AvroDecoder> Compile(const AvroType& record, const AvroSlots& slots,
                                     std::string_view what);
  AvroDecoder(AvroDecoder&&) noexcept;
  AvroDecoder& operator=(AvroDecoder&&) noexcept;
  ~AvroDecoder();

  // Fills `record`, a struct of the binding's type. One that was filled before by the same decoder
  // may be filled again and keeps its buffers. Failures show in the cursor; the struct then holds a
  // part.
  void Decode(AvroCursor& cursor, void* record) const;

 private:
  explicit AvroDecoder(std::unique_ptr<internal::AvroDecodeNode> root);
  std::unique_ptr<internal::AvroDecodeNode> root_;
};

// The other way: appends the binary encoding of structs under a writer's schema. Immutable; refers
// to the schema.
class AvroEncoder {
 public:
  // kInvalidArgument when a field that may not be null has no member, or a member cannot be written
  // as its field's type. A field without a member that may be null is written as null.
  static Result<AvroEncoder> Compile(const AvroType& record, const AvroSlots& slots);
  AvroEncoder(AvroEncoder&&) noexcept;
  AvroEncoder& operator=(AvroEncoder&&) noexcept;
  ~AvroEncoder();

  // kInvalidArgument when a value is absent where the schema demands one, or does not fit. `out` is
  // as before then.
  Status Encode(const void* record, std::string& out) const;

 private:
  explicit AvroEncoder(std::unique_ptr<internal::AvroEncodeNode> root);
  std::unique_ptr<internal::AvroEncodeNode> root_;
};

}  // namespace partforge::data
