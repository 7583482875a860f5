import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.column.ParquetProperties.WriterVersion;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.NanoTime;
import org.apache.parquet.example.data.simple.SimpleGroup;
import org.apache.parquet.hadoop.ParquetFileWriter;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.LocalOutputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.*;

/** Rows of WriteColumns as parquet-java writes them. */
class WriteParquet {
  static final int DECIMAL_BYTES = 13;
  private static final String SCHEMA =
      "message row { optional int64 i = 1; required int32 n = 2; optional double d = 3; optional float f = 4;"
      + " optional boolean b = 5; optional binary s (STRING) = 6; required binary u (STRING) = 7;"
      + " optional binary y = 8; optional int64 x (DECIMAL(12,2)) = 9;"
      + " optional fixed_len_byte_array(13) w (DECIMAL(30,4)) = 10; optional TIME t = 11;"
      + " optional int32 e (DATE) = 12;"
      + " optional group l (LIST) = 13 { repeated group list { optional int32 element = 14; } }"
      + " optional group r = 15 { optional int32 p = 16; optional binary q (STRING) = 17; }"
      + " optional group m (MAP) = 18 { repeated group key_value { required binary key (STRING) = 19;"
      + "   optional int64 value = 20; } }"
      + " optional group v (LIST) = 21 { repeated group list { optional group element (LIST) = 22 {"
      + "   repeated group list { optional int32 element = 23; } } } }"
      + " required fixed_len_byte_array(6) h = 24; }";

  static void all(Path folder, List<Map<String, Object>> rows, boolean isFew) throws Exception {
    CompressionCodecName[] codecs = {CompressionCodecName.SNAPPY, CompressionCodecName.ZSTD,
        CompressionCodecName.UNCOMPRESSED, CompressionCodecName.GZIP, CompressionCodecName.LZ4_RAW};
    for (WriterVersion version : WriterVersion.values()) {
      for (int c = 0; c < codecs.length; ++c) {
        boolean isV2 = version == WriterVersion.PARQUET_2_0;
        if (isFew && c != (isV2 ? 1 : 0)) continue;
        String name = "java_" + (isV2 ? "v2_" : "v1_") + codecs[c].name().toLowerCase() + ".parquet";
        write(folder.resolve(name), rows, version, codecs[c], c, isFew ? 7 : 70, false);
      }
    }
    if (!isFew) {
      write(folder.resolve("java_int96.parquet"), rows, WriterVersion.PARQUET_1_0, codecs[0], 0, 70, true);
    }
  }

  // Odd kinds have no dictionaries (page version 2 then uses delta encodings), every third splits the bytes of floats.
  private static void write(Path path, List<Map<String, Object>> rows, WriterVersion version,
      CompressionCodecName codec, int kind, int pageRows, boolean hasInt96) throws Exception {
    MessageType schema = MessageTypeParser.parseMessageType(
        SCHEMA.replace("TIME t", hasInt96 ? "int96 t" : "int64 t (TIMESTAMP(MICROS,true))"));
    try (ParquetWriter<Group> writer = ExampleParquetWriter.builder(new LocalOutputFile(path))
        .withConf(new Configuration()).withType(schema).withWriterVersion(version).withCompressionCodec(codec)
        .withWriteMode(ParquetFileWriter.Mode.OVERWRITE).withDictionaryEncoding(kind % 2 == 0)
        .withByteStreamSplitEncoding(kind % 3 == 1)
        .withPageRowCountLimit(pageRows).withRowGroupRowCountLimit(pageRows * 6)
        .withMinRowCountForPageSizeCheck(1).withPageWriteChecksumEnabled(true).withBloomFilterEnabled("i", true).withBloomFilterNDV("i", 400)
        .withBloomFilterEnabled("u", true).withBloomFilterNDV("u", 400).build()) {
      for (Map<String, Object> row : rows) writer.write(group(schema, row));
    }
  }

  private static Group group(GroupType type, Map<String, Object> record) {
    Group group = new SimpleGroup(type);
    for (Map.Entry<String, Object> entry : record.entrySet()) {
      if (entry.getValue() != null) add(group, entry.getKey(), entry.getValue());
    }
    return group;
  }

  private static void add(Group group, String name, Object value) {
    Type type = group.getType().getType(name);
    if (!type.isPrimitive()) {
      nested(group, name, type.asGroupType(), value);
    } else if (value instanceof Integer) {
      group.add(name, (Integer) value);
    } else if (value instanceof Long) {
      boolean isInt96 = type.asPrimitiveType().getPrimitiveTypeName() == PrimitiveType.PrimitiveTypeName.INT96;
      if (isInt96) group.add(name, nanoTime((Long) value));
      else group.add(name, (Long) value);
    } else if (value instanceof Double) {
      group.add(name, (Double) value);
    } else if (value instanceof Float) {
      group.add(name, (Float) value);
    } else if (value instanceof Boolean) {
      group.add(name, (Boolean) value);
    } else if (value instanceof String) {
      group.add(name, (String) value);
    } else if (value instanceof byte[]) {
      group.add(name, Binary.fromConstantByteArray((byte[]) value));
    } else {
      BigInteger unscaled = ((BigDecimal) value).unscaledValue();
      boolean isLong = type.asPrimitiveType().getPrimitiveTypeName() == PrimitiveType.PrimitiveTypeName.INT64;
      if (isLong) group.add(name, unscaled.longValueExact());
      else group.add(name, Binary.fromConstantByteArray(fixed(unscaled)));
    }
  }

  @SuppressWarnings("unchecked")
  private static void nested(Group group, String name, GroupType type, Object value) {
    if (value instanceof Map) {
      group.add(name, group(type, (Map<String, Object>) value));
      return;
    }
    Group outer = group.addGroup(name);
    for (Object item : (List<Object>) value) {
      Group entry = outer.addGroup(0);
      List<Object> fields = type.getType(0).asGroupType().getFieldCount() == 2
          ? (List<Object>) item : Collections.singletonList(item);
      for (int f = 0; f < fields.size(); ++f) {
        if (fields.get(f) != null) add(entry, entry.getType().getFieldName(f), fields.get(f));
      }
    }
  }

  static byte[] fixed(BigInteger unscaled) {
    byte[] bytes = new byte[DECIMAL_BYTES], least = unscaled.toByteArray();
    Arrays.fill(bytes, (byte) (unscaled.signum() < 0 ? -1 : 0));
    System.arraycopy(least, 0, bytes, bytes.length - least.length, least.length);
    return bytes;
  }

  private static NanoTime nanoTime(long micros) {
    long day = 86_400_000_000L;
    return new NanoTime((int) (Math.floorDiv(micros, day) + 2440588), Math.floorMod(micros, day) * 1000);
  }
}
