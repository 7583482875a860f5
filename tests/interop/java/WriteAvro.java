import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.*;
import org.apache.avro.Schema;
import org.apache.avro.file.CodecFactory;
import org.apache.avro.file.DataFileWriter;
import org.apache.avro.generic.*;

/** Rows of WriteColumns as Java's Avro writes them. */
class WriteAvro {
  private static final String[] FIELDS = {
      "i:1:?'long'", "n:2:'int'", "d:3:?'double'", "f:4:?'float'", "b:5:?'boolean'", "s:6:?'string'", "u:7:'string'",
      "y:8:?'bytes'", "x:9:?{'type':'bytes','logicalType':'decimal','precision':12,'scale':2}",
      "w:10:?{'type':'fixed','name':'w13','size':13,'logicalType':'decimal','precision':30,'scale':4}",
      "t:11:?{'type':'long','logicalType':'timestamp-micros','adjust-to-utc':true}",
      "e:12:?{'type':'int','logicalType':'date'}",
      "l:13:?{'type':'array','items':['null','int'],'element-id':14}",
      "r:15:?{'type':'record','name':'r15','fields':[{'name':'p','type':['null','int'],'field-id':16},"
          + "{'name':'q','type':['null','string'],'field-id':17}]}",
      "m:18:?{'type':'map','values':['null','long'],'key-id':19,'value-id':20}",
      "v:21:?{'type':'array','items':['null',{'type':'array','items':['null','int'],'element-id':23}],'element-id':22}",
      "h:24:{'type':'fixed','name':'h6','size':6}"};

  static Schema schema() {
    StringJoiner fields = new StringJoiner(",", "{'type':'record','name':'row','fields':[", "]}");
    for (String field : FIELDS) {
      String[] parts = field.split(":", 3);
      boolean isOptional = parts[2].startsWith("?");
      String type = isOptional ? "['null'," + parts[2].substring(1) + "]" : parts[2];
      fields.add("{'name':'" + parts[0] + "','field-id':" + parts[1] + ",'type':" + type + "}");
    }
    return new Schema.Parser().parse(fields.toString().replace('\'', '"'));
  }

  static void all(Path folder, List<Map<String, Object>> rows, boolean isFew) throws Exception {
    for (String codec : new String[] {"deflate", "null", "snappy", "zstandard"}) {
      if (isFew && !codec.equals("deflate")) continue;
      write(folder.resolve("java_" + codec + ".avro"), rows, codec);
    }
  }

  private static void write(Path path, List<Map<String, Object>> rows, String codec) throws Exception {
    Schema schema = schema();
    try (DataFileWriter<GenericRecord> writer = new DataFileWriter<>(new GenericDatumWriter<>(schema))) {
      writer.setCodec(CodecFactory.fromString(codec));
      writer.setSyncInterval(4000);
      writer.create(schema, path.toFile());
      for (Map<String, Object> row : rows) writer.append((GenericRecord) value(schema, row));
    }
  }

  private static Object value(Schema schema, Object value) {
    if (schema.getType() == Schema.Type.UNION) return value == null ? null : value(schema.getTypes().get(1), value);
    switch (schema.getType()) {
      case RECORD: {
        GenericRecord record = new GenericData.Record(schema);
        for (Schema.Field field : schema.getFields()) {
          record.put(field.pos(), value(field.schema(), ((Map<?, ?>) value).get(field.name())));
        }
        return record;
      }
      case ARRAY: {
        List<Object> items = new ArrayList<>();
        for (Object item : (List<?>) value) items.add(value(schema.getElementType(), item));
        return items;
      }
      case MAP: {
        Map<String, Object> map = new LinkedHashMap<>();
        for (Object pair : (List<?>) value) {
          map.put((String) ((List<?>) pair).get(0), value(schema.getValueType(), ((List<?>) pair).get(1)));
        }
        return map;
      }
      case FIXED:
        return new GenericData.Fixed(schema, value instanceof BigDecimal
            ? WriteParquet.fixed(((BigDecimal) value).unscaledValue()) : (byte[]) value);
      case BYTES:
        return ByteBuffer.wrap(value instanceof BigDecimal
            ? ((BigDecimal) value).unscaledValue().toByteArray() : (byte[]) value);
      default: return value;
    }
  }
}
