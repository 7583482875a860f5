import java.util.*;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.generic.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.*;
import org.apache.orc.*;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.hadoop.ParquetReader;
import org.apache.parquet.hadoop.example.GroupReadSupport;

/**
 * Prints the rows of files as the Java implementations read them, one line a row behind "== FILE",
 * as Json has them. FILE.parquet?n=7 asks for the rows whose int column n is 7, by statistics, page
 * index and bloom filters. The schema of ORC and Avro with its attributes goes before their rows.
 */
public class ReadColumns {
  public static void main(String[] arguments) throws Exception {
    for (String argument : arguments) {
      System.out.println("== " + argument);
      try {
        if (argument.contains(".parquet")) readParquet(argument);
        else if (argument.endsWith(".orc")) readOrc(argument);
        else readAvro(argument);
      } catch (Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) System.out.println("ERROR " + cause);
      }
    }
  }

  static void readParquet(String argument) throws Exception {
    String[] parts = argument.split("\\?n=");
    ParquetReader.Builder<Group> builder = ParquetReader.builder(new GroupReadSupport(), new Path(parts[0]));
    if (parts.length > 1) {
      builder.withFilter(FilterCompat.get(FilterApi.eq(FilterApi.intColumn("n"), Integer.parseInt(parts[1]))));
    }
    try (ParquetReader<Group> reader = builder.build()) {
      for (Group row; (row = reader.read()) != null; ) System.out.println(Json.text(ParquetValues.record(row)));
    }
  }

  static void readOrc(String file) throws Exception {
    try (Reader reader = OrcFile.createReader(new Path(file), OrcFile.readerOptions(new Configuration()))) {
      TypeDescription schema = reader.getSchema();
      StringBuilder ids = new StringBuilder();
      describe(schema, "", ids);
      System.out.println("SCHEMA " + ids);
      VectorizedRowBatch batch = schema.createRowBatch();
      try (RecordReader rows = reader.rows()) {
        while (rows.nextBatch(batch)) {
          for (int row = 0; row < batch.size; ++row) {
            StringBuilder line = new StringBuilder("{");
            for (int c = 0; c < batch.numCols; ++c) {
              if (c > 0) line.append(",");
              line.append(Json.quote(schema.getFieldNames().get(c))).append(":");
              value(batch.cols[c], schema.getChildren().get(c), row, line);
            }
            System.out.println(line.append("}"));
          }
        }
      }
    }
  }

  static void describe(TypeDescription type, String path, StringBuilder out) {
    for (String attribute : new TreeSet<>(type.getAttributeNames())) {
      out.append(path).append(":").append(attribute).append("=").append(type.getAttributeValue(attribute)).append(" ");
    }
    if (type.getChildren() == null) return;
    for (int i = 0; i < type.getChildren().size(); ++i) {
      String name = type.getCategory() == TypeDescription.Category.STRUCT ? type.getFieldNames().get(i) : "" + i;
      describe(type.getChildren().get(i), path.isEmpty() ? name : path + "." + name, out);
    }
  }

  static void value(ColumnVector column, TypeDescription type, int row, StringBuilder out) {
    if (column.isRepeating) row = 0;
    if (!column.noNulls && column.isNull[row]) {
      out.append("null");
      return;
    }
    switch (type.getCategory()) {
      case BOOLEAN: out.append(((LongColumnVector) column).vector[row] != 0); break;
      case BYTE: case SHORT: case INT: case LONG: case DATE:
        out.append(((LongColumnVector) column).vector[row]); break;
      case FLOAT: case DOUBLE: out.append(((DoubleColumnVector) column).vector[row]); break;
      case TIMESTAMP: case TIMESTAMP_INSTANT: {
        TimestampColumnVector times = (TimestampColumnVector) column;
        // As microseconds of the wall clock or of UTC; the process runs in UTC.
        out.append(Math.floorDiv(times.time[row], 1000L) * 1000000L + times.nanos[row] / 1000);
        break;
      }
      case DECIMAL:
        out.append(Json.quote((column instanceof Decimal64ColumnVector
            ? ((Decimal64ColumnVector) column).getScratchWritable() == null ? "" :
              java.math.BigDecimal.valueOf(((Decimal64ColumnVector) column).vector[row], type.getScale()).toPlainString()
            : ((DecimalColumnVector) column).vector[row].getHiveDecimal().bigDecimalValue()
                .setScale(type.getScale()).toPlainString())));
        break;
      case STRING: case VARCHAR: case CHAR: out.append(Json.quote(((BytesColumnVector) column).toString(row))); break;
      case BINARY: {
        BytesColumnVector bytes = (BytesColumnVector) column;
        out.append(Json.quote(Json.hex(Arrays.copyOfRange(bytes.vector[row], bytes.start[row], bytes.start[row] + bytes.length[row]))));
        break;
      }
      case LIST: {
        ListColumnVector list = (ListColumnVector) column;
        out.append("[");
        for (long i = 0; i < list.lengths[row]; ++i) {
          if (i > 0) out.append(",");
          value(list.child, type.getChildren().get(0), (int) (list.offsets[row] + i), out);
        }
        out.append("]");
        break;
      }
      case MAP: {
        MapColumnVector map = (MapColumnVector) column;
        out.append("[");
        for (long i = 0; i < map.lengths[row]; ++i) {
          if (i > 0) out.append(",");
          out.append("[");
          value(map.keys, type.getChildren().get(0), (int) (map.offsets[row] + i), out);
          out.append(",");
          value(map.values, type.getChildren().get(1), (int) (map.offsets[row] + i), out);
          out.append("]");
        }
        out.append("]");
        break;
      }
      case STRUCT: {
        StructColumnVector record = (StructColumnVector) column;
        out.append("{");
        for (int i = 0; i < record.fields.length; ++i) {
          if (i > 0) out.append(",");
          out.append(Json.quote(type.getFieldNames().get(i))).append(":");
          value(record.fields[i], type.getChildren().get(i), row, out);
        }
        out.append("}");
        break;
      }
      default: throw new IllegalStateException("type " + type);
    }
  }

  static void readAvro(String file) throws Exception {
    try (DataFileReader<GenericRecord> reader =
        new DataFileReader<>(new java.io.File(file), new GenericDatumReader<>())) {
      System.out.println("SCHEMA " + reader.getSchema());
      for (GenericRecord row : reader) {
        StringBuilder line = new StringBuilder();
        avroValue(row, row.getSchema(), line);
        System.out.println(line);
      }
    }
  }

  static void avroValue(Object value, org.apache.avro.Schema schema, StringBuilder out) {
    if (schema.getType() == org.apache.avro.Schema.Type.UNION) {
      avroValue(value, schema.getTypes().get(GenericData.get().resolveUnion(schema, value)), out);
      return;
    }
    if (value == null) {
      out.append("null");
      return;
    }
    String logical = schema.getProp("logicalType");
    switch (schema.getType()) {
      case RECORD: {
        out.append("{");
        for (org.apache.avro.Schema.Field field : schema.getFields()) {
          if (field.pos() > 0) out.append(",");
          out.append(Json.quote(field.name())).append(":");
          avroValue(((GenericRecord) value).get(field.pos()), field.schema(), out);
        }
        out.append("}");
        break;
      }
      case ARRAY: {
        boolean isMap = "map".equals(logical);
        out.append("[");
        String comma = "";
        for (Object item : (Collection<?>) value) {
          out.append(comma);
          comma = ",";
          if (isMap) {
            GenericRecord entry = (GenericRecord) item;
            out.append("[");
            avroValue(entry.get(0), entry.getSchema().getFields().get(0).schema(), out);
            out.append(",");
            avroValue(entry.get(1), entry.getSchema().getFields().get(1).schema(), out);
            out.append("]");
          } else {
            avroValue(item, schema.getElementType(), out);
          }
        }
        out.append("]");
        break;
      }
      case MAP: {
        out.append("[");
        String comma = "";
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
          out.append(comma).append("[").append(Json.quote(entry.getKey().toString())).append(",");
          comma = ",";
          avroValue(entry.getValue(), schema.getValueType(), out);
          out.append("]");
        }
        out.append("]");
        break;
      }
      case STRING: out.append(Json.quote(value.toString())); break;
      case BYTES: case FIXED: {
        byte[] bytes = value instanceof GenericFixed ? ((GenericFixed) value).bytes() : array((java.nio.ByteBuffer) value);
        if ("decimal".equals(logical)) {
          int scale = ((Number) schema.getObjectProp("scale")).intValue();
          out.append(Json.quote(new java.math.BigDecimal(new java.math.BigInteger(bytes), scale).toPlainString()));
        } else {
          out.append(Json.quote(Json.hex(bytes)));
        }
        break;
      }
      default: out.append(value);
    }
  }

  static byte[] array(java.nio.ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return bytes;
  }
}
