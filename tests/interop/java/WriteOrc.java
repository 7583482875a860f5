import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.orc.*;

/** Rows of WriteColumns as Java's ORC writes them. */
class WriteOrc {
  private static final String SCHEMA = "struct<i:bigint,n:int,d:double,f:float,b:boolean,s:string,u:string,y:binary,"
      + "x:decimal(12,2),w:decimal(30,4),t:timestamp,e:date,l:array<int>,r:struct<p:int,q:string>,m:map<string,bigint>,"
      + "v:array<array<int>>,h:binary>";

  static void all(Path folder, List<Map<String, Object>> rows, boolean isFew) throws Exception {
    for (CompressionKind codec : new CompressionKind[] {CompressionKind.ZLIB, CompressionKind.NONE,
        CompressionKind.SNAPPY, CompressionKind.LZ4, CompressionKind.ZSTD}) {
      if (isFew && codec != CompressionKind.ZLIB) continue;
      write(folder.resolve("java_" + codec.name().toLowerCase() + ".orc"), rows, codec);
    }
  }

  private static void write(Path path, List<Map<String, Object>> rows, CompressionKind codec) throws Exception {
    TypeDescription schema = TypeDescription.fromString(SCHEMA);
    for (int c = 0; c < schema.getChildren().size(); ++c) {
      schema.getChildren().get(c).setAttribute("iceberg.id", "" + (c + 1));
    }
    OrcFile.WriterOptions options = OrcFile.writerOptions(new Configuration()).setSchema(schema).compress(codec)
        .overwrite(true).bloomFilterColumns("i,u").rowIndexStride(1000).stripeSize(40_000).bufferSize(16_384)
        .fileSystem(new org.apache.hadoop.fs.RawLocalFileSystem() {
          { initialize(java.net.URI.create("file:///"), new Configuration()); }
        });
    try (Writer writer = OrcFile.createWriter(new org.apache.hadoop.fs.Path(path.toUri()), options)) {
      VectorizedRowBatch batch = schema.createRowBatch(256);
      for (Map<String, Object> row : rows) {
        int at = batch.size++;
        List<String> names = schema.getFieldNames();
        for (int c = 0; c < names.size(); ++c) {
          put(batch.cols[c], schema.getChildren().get(c), at, row.get(names.get(c)));
        }
        if (batch.size == batch.getMaxSize()) {
          writer.addRowBatch(batch);
          batch.reset();
        }
      }
      if (batch.size > 0) writer.addRowBatch(batch);
    }
  }

  private static void put(ColumnVector column, TypeDescription type, int at, Object value) {
    column.ensureSize(at + 1, true);
    if (value == null) {
      column.isNull[at] = true;
      column.noNulls = false;
      return;
    }
    column.isNull[at] = false;
    switch (type.getCategory()) {
      case BOOLEAN: ((LongColumnVector) column).vector[at] = (Boolean) value ? 1 : 0; break;
      case INT: case LONG: case DATE: ((LongColumnVector) column).vector[at] = ((Number) value).longValue(); break;
      case FLOAT: case DOUBLE: ((DoubleColumnVector) column).vector[at] = ((Number) value).doubleValue(); break;
      case STRING:
        ((BytesColumnVector) column).setVal(at, ((String) value).getBytes(StandardCharsets.UTF_8)); break;
      case BINARY: ((BytesColumnVector) column).setVal(at, (byte[]) value); break;
      case DECIMAL: {
        HiveDecimal decimal = HiveDecimal.create((BigDecimal) value);
        if (column instanceof Decimal64ColumnVector) {
          ((Decimal64ColumnVector) column).vector[at] = ((BigDecimal) value).unscaledValue().longValueExact();
        } else {
          ((DecimalColumnVector) column).set(at, decimal);
        }
        break;
      }
      case TIMESTAMP: {
        TimestampColumnVector times = (TimestampColumnVector) column;
        times.setIsUTC(true);
        times.time[at] = Math.floorDiv((Long) value, 1000L);
        times.nanos[at] = (int) (Math.floorMod((Long) value, 1_000_000L) * 1000);
        break;
      }
      case LIST: {
        ListColumnVector list = (ListColumnVector) column;
        List<?> items = (List<?>) value;
        list.offsets[at] = list.childCount;
        list.lengths[at] = items.size();
        list.childCount += items.size();
        for (int k = 0; k < items.size(); ++k) {
          put(list.child, type.getChildren().get(0), (int) list.offsets[at] + k, items.get(k));
        }
        break;
      }
      case MAP: {
        MapColumnVector map = (MapColumnVector) column;
        List<?> pairs = (List<?>) value;
        map.offsets[at] = map.childCount;
        map.lengths[at] = pairs.size();
        map.childCount += pairs.size();
        for (int k = 0; k < pairs.size(); ++k) {
          List<?> pair = (List<?>) pairs.get(k);
          put(map.keys, type.getChildren().get(0), (int) map.offsets[at] + k, pair.get(0));
          put(map.values, type.getChildren().get(1), (int) map.offsets[at] + k, pair.get(1));
        }
        break;
      }
      case STRUCT: {
        for (int f = 0; f < type.getChildren().size(); ++f) {
          put(((StructColumnVector) column).fields[f], type.getChildren().get(f), at,
              ((Map<?, ?>) value).get(type.getFieldNames().get(f)));
        }
        break;
      }
      default: throw new IllegalStateException("type " + type);
    }
  }
}
