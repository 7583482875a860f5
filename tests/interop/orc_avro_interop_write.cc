// Writes, for orc_avro_interop.py: the same rows as ORC and Avro files with ids, one a codec, and
// as a Parquet file of the library's for comparison.
//
//   orc_avro_interop_write DIR

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <fmt/format.h>
#include <parquet/arrow/writer.h>

#include "base/files.h"
#include "data/avro_sink.h"
#include "data/orc_sink.h"
#include "data/schema_mapping.h"
#include "testing/memory_store.h"
#include "testing/test_world.h"

namespace partforge::interop {
namespace {

using namespace partforge::data;  // NOLINT: this file is about nothing else

template <class T>
T Must(Result<T> result) {
  PF_CHECK(result.ok(), result.status().ToString());
  return std::move(result).value();
}
void Must(const Status& status) {
  PF_CHECK(status.ok(), status.ToString());
}
void Must(const arrow::Status& status) {
  PF_CHECK(status.ok(), status.ToString());
}

std::shared_ptr<arrow::Field> Id(const char* name, std::shared_ptr<arrow::DataType> type, int id,
                                 bool nullable = true) {
  return WithFieldId(arrow::field(name, std::move(type), nullable), id);
}

std::shared_ptr<arrow::Schema> Schema() {
  return arrow::schema(
      {Id("i", arrow::int64(), 1), Id("n", arrow::int32(), 2, false), Id("d", arrow::float64(), 3),
       Id("b", arrow::boolean(), 4), Id("s", arrow::utf8(), 5), Id("y", arrow::binary(), 6),
       Id("x", arrow::decimal128(12, 2), 7), Id("w", arrow::decimal128(30, 4), 8),
       Id("t", arrow::timestamp(arrow::TimeUnit::MICRO), 9), Id("e", arrow::date32(), 10),
       Id("l", arrow::list(Id("element", arrow::int32(), 12)), 11),
       Id("r", arrow::struct_({Id("p", arrow::int32(), 14), Id("q", arrow::utf8(), 15)}), 13),
       Id("m",
          std::make_shared<arrow::MapType>(Id("key", arrow::utf8(), 17, false),
                                           Id("value", arrow::int64(), 18)),
          16)});
}

std::shared_ptr<arrow::RecordBatch> Rows(Random& random, int64_t rows) {
  arrow::ArrayVector columns;
  const auto schema = Schema();
  auto builder = arrow::MakeBuilder(arrow::struct_(schema->fields()), arrow::default_memory_pool())
                     .ValueOrDie();
  auto& record = static_cast<arrow::StructBuilder&>(*builder);
  const auto is_null = [&] { return random.Next() % 6 == 0; };
  const auto at = [&]<class B>(int field, B*) {
    return static_cast<B*>(record.field_builder(field));
  };
  const auto put = [&](auto* column, const auto& value) {
    Must(is_null() ? column->AppendNull() : column->Append(value));
  };
  for (int64_t row = 0; row < rows; ++row) {
    Must(record.Append());
    const auto number = static_cast<int64_t>(random.Next() >> 20);
    put(at(0, static_cast<arrow::Int64Builder*>(nullptr)), number - (int64_t{1} << 43));
    Must(at(1, static_cast<arrow::Int32Builder*>(nullptr))->Append(static_cast<int32_t>(row)));
    put(at(2, static_cast<arrow::DoubleBuilder*>(nullptr)),
        static_cast<double>(number % 100'000) / 8 - 5000);
    put(at(3, static_cast<arrow::BooleanBuilder*>(nullptr)), number % 2 == 0);
    put(at(4, static_cast<arrow::StringBuilder*>(nullptr)), fmt::format("city{}é", number % 30));
    put(at(5, static_cast<arrow::BinaryBuilder*>(nullptr)), fmt::format("\x01\xff{}", number));
    put(at(6, static_cast<arrow::Decimal128Builder*>(nullptr)),
        arrow::Decimal128(number % 2'000'000 - 1'000'000));
    put(at(7, static_cast<arrow::Decimal128Builder*>(nullptr)),
        arrow::Decimal128(number) * arrow::Decimal128(int64_t{1'000'000'007}));
    // 1950 to 2050, whole seconds before 1970 (orc_sink.h).
    int64_t time = number * 1000 % 3'155'760'000'000'000 - 631'152'000'000'000;
    if (time < 0) time -= time % 1'000'000;
    put(at(8, static_cast<arrow::TimestampBuilder*>(nullptr)), time);
    put(at(9, static_cast<arrow::Date32Builder*>(nullptr)),
        static_cast<int32_t>(number % 36'000 - 7000));
    auto* list = at(10, static_cast<arrow::ListBuilder*>(nullptr));
    if (is_null()) {
      Must(list->AppendNull());
    } else {
      Must(list->Append());
      for (int64_t k = number % 4; k > 0; --k) {
        put(static_cast<arrow::Int32Builder*>(list->value_builder()), static_cast<int32_t>(k * 7));
      }
    }
    auto* inner = at(11, static_cast<arrow::StructBuilder*>(nullptr));
    if (is_null()) {
      Must(inner->AppendNull());
    } else {
      Must(inner->Append());
      put(static_cast<arrow::Int32Builder*>(inner->field_builder(0)), static_cast<int32_t>(row));
      put(static_cast<arrow::StringBuilder*>(inner->field_builder(1)),
          fmt::format("q{}", number % 5));
    }
    auto* map = at(12, static_cast<arrow::MapBuilder*>(nullptr));
    if (is_null()) {
      Must(map->AppendNull());
    } else {
      Must(map->Append());
      for (int64_t k = number % 3; k > 0; --k) {
        Must(static_cast<arrow::StringBuilder*>(map->key_builder())->Append(fmt::format("k{}", k)));
        put(static_cast<arrow::Int64Builder*>(map->item_builder()), number);
      }
    }
  }
  const auto array = builder->Finish().ValueOrDie();
  // Builders name the inner fields of maps as they like.
  const auto typed = array->View(arrow::struct_(schema->fields())).ValueOrDie();
  return arrow::RecordBatch::FromStructArray(typed).ValueOrDie()->ReplaceSchemaMetadata(nullptr);
}

void Main(const std::string& directory) {
  testing::TestWorld world;
  const Context ctx = world.context();
  testing::MemoryStore store;
  testing::SeededRandom random(1);
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(Rows(random, 400));
  const auto finish = [&](const std::string& key, std::unique_ptr<BatchSink> sink) {
    for (const auto& batch : batches) {
      Must(sink->Write(ctx,
                       *arrow::RecordBatch::Make(Schema(), batch->num_rows(), batch->columns())));
    }
    Must(sink->Close(ctx));
    Must(WriteFileDurably(directory + "/" + key, Must(ReadObject(ctx, store, key))));
  };
  const std::pair<const char*, OrcCodec> orc_codecs[] = {{"none", OrcCodec::kNone},
                                                         {"zlib", OrcCodec::kZlib},
                                                         {"snappy", OrcCodec::kSnappy},
                                                         {"lz4", OrcCodec::kLz4},
                                                         {"zstd", OrcCodec::kZstd}};
  for (const auto& [name, codec] : orc_codecs) {
    const std::string key = fmt::format("{}.orc", name);
    finish(key,
           Must(OpenOrcSink(ctx, Must(store.Create(ctx, key, -1)), key, Schema(),
                            {.attributes = {.id = "iceberg.id", .required = "iceberg.required"},
                             .codec = codec,
                             .stripe_bytes = 30'000})));
  }
  for (const BlockCodec codec :
       {BlockCodec::kNone, BlockCodec::kDeflate, BlockCodec::kSnappy, BlockCodec::kZstd}) {
    const std::string key = fmt::format("{}.avro", AvroCodecName(codec));
    finish(key, Must(OpenAvroSink(ctx, Must(store.Create(ctx, key, -1)), key, Schema(),
                                  {.codec = codec, .level = 3, .block_raw_bytes = 5000})));
  }
  const auto table = arrow::Table::FromRecordBatches(batches).ValueOrDie();
  const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  Must(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 1 << 20));
  Must(WriteFileDurably(directory + "/rows.parquet", out->Finish().ValueOrDie()->ToString()));
}

}  // namespace
}  // namespace partforge::interop

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  partforge::interop::Main(argv[1]);
  return 0;
}
