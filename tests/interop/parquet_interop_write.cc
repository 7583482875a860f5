// Writes, for parquet_interop.py: files as libparquet writes them with one seed's properties, what
// copying, stitching and filtering makes of them, and the same rows as our sink encodes them.
//
//   parquet_interop_write DIR [SEED]

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <fmt/format.h>
#include <parquet/arrow/writer.h>

#include <cstdlib>

#include "base/files.h"
#include "data/page_stitch.h"
#include "data/parquet_sink.h"
#include "data/row_group_copy.h"
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

std::shared_ptr<arrow::Schema> Schema() {
  return arrow::schema({arrow::field("i", arrow::int64()), arrow::field("n", arrow::int32(), false),
                        arrow::field("d", arrow::float64()), arrow::field("b", arrow::boolean()),
                        arrow::field("s", arrow::utf8()), arrow::field("u", arrow::utf8()),
                        arrow::field("t", arrow::timestamp(arrow::TimeUnit::MICRO)),
                        arrow::field("x", arrow::decimal128(12, 2)),
                        arrow::field("l", arrow::list(arrow::field("element", arrow::int32()))),
                        arrow::field("r", arrow::struct_({arrow::field("p", arrow::int32()),
                                                          arrow::field("q", arrow::utf8())})),
                        arrow::field("m", arrow::map(arrow::utf8(), arrow::int64())),
                        arrow::field("h", arrow::fixed_size_binary(6)),
                        arrow::field("v", arrow::list(arrow::list(arrow::int32())))});
}

std::shared_ptr<arrow::RecordBatch> Rows(Random& random, int64_t rows) {
  std::unique_ptr<arrow::RecordBatchBuilder> builder =
      arrow::RecordBatchBuilder::Make(Schema(), arrow::default_memory_pool()).ValueOrDie();
  const auto is_null = [&] { return random.Next() % 6 == 0; };
  for (int64_t row = 0; row < rows; ++row) {
    auto* i = builder->GetFieldAs<arrow::Int64Builder>(0);
    Must(is_null() ? i->AppendNull() : i->Append(static_cast<int64_t>(random.Next() >> 20)));
    Must(builder->GetFieldAs<arrow::Int32Builder>(1)->Append(
        static_cast<int32_t>(random.Next() % 40)));
    auto* d = builder->GetFieldAs<arrow::DoubleBuilder>(2);
    Must(is_null() ? d->AppendNull() : d->Append(static_cast<double>(random.Next() % 1000) / 8));
    auto* b = builder->GetFieldAs<arrow::BooleanBuilder>(3);
    Must(is_null() ? b->AppendNull() : b->Append(random.Next() % 2 == 0));
    auto* s = builder->GetFieldAs<arrow::StringBuilder>(4);
    Must(is_null() ? s->AppendNull() : s->Append(fmt::format("city{}", random.Next() % 30)));
    Must(builder->GetFieldAs<arrow::StringBuilder>(5)->Append(fmt::format("{:x}", random.Next())));
    Must(builder->GetFieldAs<arrow::TimestampBuilder>(6)->Append(
        static_cast<int64_t>(random.Next() % 1'000'000'000'000)));
    auto* x = builder->GetFieldAs<arrow::Decimal128Builder>(7);
    Must(x->Append(arrow::Decimal128(static_cast<int64_t>(random.Next() % 100'000))));
    auto* l = builder->GetFieldAs<arrow::ListBuilder>(8);
    if (is_null()) {
      Must(l->AppendNull());
    } else {
      Must(l->Append());
      for (uint64_t k = random.Next() % 4; k > 0; --k) {
        Must(static_cast<arrow::Int32Builder*>(l->value_builder())
                 ->Append(static_cast<int32_t>(random.Next() % 100)));
      }
    }
    auto* r = builder->GetFieldAs<arrow::StructBuilder>(9);
    auto* p = static_cast<arrow::Int32Builder*>(r->field_builder(0));
    auto* q = static_cast<arrow::StringBuilder*>(r->field_builder(1));
    Must(r->Append(!is_null()));
    Must(is_null() ? p->AppendNull() : p->Append(static_cast<int32_t>(row)));
    Must(q->Append(fmt::format("q{}", random.Next() % 5)));
    auto* m = builder->GetFieldAs<arrow::MapBuilder>(10);
    Must(m->Append());
    for (uint64_t k = random.Next() % 3; k > 0; --k) {
      Must(static_cast<arrow::StringBuilder*>(m->key_builder())->Append(fmt::format("k{}", k)));
      auto* value = static_cast<arrow::Int64Builder*>(m->item_builder());
      Must(is_null() ? value->AppendNull() : value->Append(static_cast<int64_t>(random.Next())));
    }
    auto* h = builder->GetFieldAs<arrow::FixedSizeBinaryBuilder>(11);
    Must(is_null() ? h->AppendNull() : h->Append(fmt::format("{:06}", random.Next() % 1'000'000)));
    auto* v = builder->GetFieldAs<arrow::ListBuilder>(12);
    Must(v->Append());
    auto* inner = static_cast<arrow::ListBuilder*>(v->value_builder());
    for (uint64_t k = random.Next() % 3; k > 0; --k) {
      Must(inner->Append());
      for (uint64_t j = random.Next() % 3; j > 0; --j) {
        Must(static_cast<arrow::Int32Builder*>(inner->value_builder())
                 ->Append(static_cast<int32_t>(random.Next() % 9)));
      }
    }
  }
  return builder->Flush().ValueOrDie();
}

// `kind` chooses what differs between writers but for the codec, which is one of six.
std::string Encode(const std::shared_ptr<arrow::RecordBatch>& rows, uint64_t kind, int codec,
                   int64_t group_rows) {
  parquet::WriterProperties::Builder builder;
  builder.max_rows_per_page(97)->write_batch_size(31)->enable_store_decimal_as_integer();
  // Every third file gives its dictionaries up, and then uses one of the other encodings.
  if (kind % 3 == 0) builder.disable_dictionary();
  if (kind % 3 == 1) builder.dictionary_pagesize_limit(2000);
  using parquet::Encoding;
  if (kind % 2 == 0) {
    builder.encoding("i", Encoding::DELTA_BINARY_PACKED)
        ->encoding("d", Encoding::BYTE_STREAM_SPLIT);
    builder.encoding("s", Encoding::DELTA_BYTE_ARRAY)
        ->encoding("u", Encoding::DELTA_LENGTH_BYTE_ARRAY);
  }
  if (kind % 5 < 2) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
  if (kind % 7 < 3) builder.disable_write_page_index();
  const parquet::Compression::type codecs[] = {
      parquet::Compression::ZSTD, parquet::Compression::SNAPPY,
      parquet::Compression::GZIP, parquet::Compression::UNCOMPRESSED,
      parquet::Compression::LZ4,  parquet::Compression::BROTLI};
  builder.compression(codecs[static_cast<size_t>(codec)]);
  parquet::ArrowWriterProperties::Builder arrow_builder;
  if (kind % 11 < 5) arrow_builder.enable_deprecated_int96_timestamps();
  const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto table = arrow::Table::FromRecordBatches({rows}).ValueOrDie();
  Must(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, group_rows,
                                  builder.build(), arrow_builder.build()));
  return out->Finish().ValueOrDie()->ToString();
}

// What our sink makes of rows; seeds differ in codec, encodings and dictionaries.
ParquetSinkOptions SinkOptions(uint64_t seed) {
  constexpr ParquetCodec kCodecs[] = {ParquetCodec::kZstd, ParquetCodec::kSnappy,
                                      ParquetCodec::kGzip, ParquetCodec::kLz4Raw,
                                      ParquetCodec::kNone};
  ParquetSinkOptions options{
      .codec = kCodecs[seed % 5], .row_group_rows = 500, .page_rows = 97, .bound_bytes_max = 64};
  const auto choice = seed % 3 == 0 ? DictionaryChoice::kNever : DictionaryChoice::kAuto;
  const auto encoding = seed % 2 == 0 ? ValueEncoding::kDelta : ValueEncoding::kPlain;
  for (const char* path : {"i", "n", "u"}) {
    options.columns.push_back(
        {.path = path, .dictionary = choice, .encoding = encoding, .bloom_distinct_count = 500});
  }
  options.columns.push_back({.path = "d",
                             .dictionary = DictionaryChoice::kNever,
                             .encoding = ValueEncoding::kByteStreamSplit});
  return options;
}

void Main(const std::string& directory, uint64_t seed) {
  testing::TestWorld world;
  const Context ctx = world.context();
  ArrowMemory memory(ctx.memory);
  testing::MemoryStore store;
  testing::SeededRandom random(seed);
  const auto save = [&](const std::string& key) {
    Must(WriteFileDurably(directory + "/" + key + ".parquet", Must(ReadObject(ctx, store, key))));
  };
  std::vector<std::shared_ptr<ParquetInput>> inputs;
  std::vector<std::unique_ptr<RowFilter>> filters;
  std::string kept;
  // INT96 is a type of its own: files to be joined agree about it. Page versions may differ.
  const uint64_t common = random.Next();
  std::vector<uint64_t> kinds;
  for (int f = 0; f < 3; ++f) {
    uint64_t kind = random.Next();
    while (kind % 11 != common % 11) ++kind;
    kinds.push_back(kind);
  }
  const auto written = Must(ParquetSink::Open(ctx, Must(store.Create(ctx, "written", -1)),
                                              "written", Schema(), SinkOptions(seed), memory));
  for (int f = 0; f < 3; ++f) {
    const std::string key = fmt::format("in{}", f);
    const auto rows = Rows(random, 700);
    Must(written->Write(ctx, *rows));
    Must(WriteObject(ctx, store, key,
                     Encode(rows, kinds[static_cast<size_t>(f)],
                            (static_cast<int>(seed) + (seed % 2 == 0 ? f : 0)) % 6, 300)));
    save(key);
    inputs.push_back(Must(OpenParquetInput(ctx, Must(store.Open(ctx, key)), key)));
    Positions deleted;
    for (uint64_t row = 0; row < 700; ++row) {
      if (f == 0 ? row % 100 < 30 : random.Next() % 9 == 0) {
        deleted.Add(row);
      } else {
        kept += fmt::format("{} {}\n", f, row);
      }
    }
    filters.push_back(std::make_unique<RowFilter>(std::move(deleted)));
  }
  Must(written->Close(ctx));
  save("written");
  Must(WriteFileDurably(directory + "/kept.txt", kept));
  for (const std::string key : {"copied", "stitched", "filtered"}) {
    ParquetSinkOptions options;
    options.schema_of = &inputs[0]->footer;
    const auto sink = Must(
        ParquetSink::Open(ctx, Must(store.Create(ctx, key, -1)), key, Schema(), options, memory));
    std::vector<StitchPart> parts;
    for (size_t f = 0; f < inputs.size(); ++f) {
      for (int g = 0; g < inputs[f]->footer.row_group_count(); ++g) {
        parts.push_back({.input = inputs[f],
                         .row_group = g,
                         .deleted = key == "filtered" ? filters[f].get() : nullptr});
        if (key == "copied") Must(sink->AppendEncoded(ctx, CopiedRowGroup(inputs[f], g, {})));
      }
    }
    StitchCounts counts;
    if (key != "copied") {
      Must(sink->AppendEncoded(ctx, StitchedRun(parts, {}, memory, counts)));
    }
    Must(sink->Close(ctx));
    save(key);
  }
}

}  // namespace
}  // namespace partforge::interop

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  partforge::interop::Main(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  return 0;
}
