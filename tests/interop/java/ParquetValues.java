import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.*;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.NanoTime;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.*;
import org.apache.parquet.schema.LogicalTypeAnnotation.*;

/** Values of Parquet as Json writes them. */
class ParquetValues {
  static Map<String, Object> record(Group group) {
    Map<String, Object> row = new LinkedHashMap<>();
    for (int f = 0; f < group.getType().getFieldCount(); ++f) row.put(group.getType().getFieldName(f), field(group, f));
    return row;
  }

  static Object field(Group group, int field) {
    if (group.getFieldRepetitionCount(field) == 0) return null;
    Type type = group.getType().getType(field);
    if (type.isPrimitive()) return plain(type.asPrimitiveType(), raw(group, field, 0));
    Group inner = group.getGroup(field, 0);
    boolean isList = type.getLogicalTypeAnnotation() instanceof ListLogicalTypeAnnotation;
    if (!isList && !(type.getLogicalTypeAnnotation() instanceof MapLogicalTypeAnnotation)) return record(inner);
    List<Object> items = new ArrayList<>();
    for (int k = 0; k < inner.getFieldRepetitionCount(0); ++k) {
      Group entry = inner.getGroup(0, k);
      items.add(isList ? field(entry, 0) : Arrays.asList(field(entry, 0), field(entry, 1)));
    }
    return items;
  }

  private static Object raw(Group group, int field, int index) {
    switch (group.getType().getType(field).asPrimitiveType().getPrimitiveTypeName()) {
      case BOOLEAN: return group.getBoolean(field, index);
      case INT32: return group.getInteger(field, index);
      case INT64: return group.getLong(field, index);
      case FLOAT: return group.getFloat(field, index);
      case DOUBLE: return group.getDouble(field, index);
      case INT96: return group.getInt96(field, index);
      default: return group.getBinary(field, index);
    }
  }

  /** A value of a statistic or an index, as it lies there. */
  static Object ofBytes(PrimitiveType type, ByteBuffer bytes) {
    ByteBuffer little = bytes.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    switch (type.getPrimitiveTypeName()) {
      case BOOLEAN: return little.get() != 0;
      case INT32: return plain(type, little.getInt());
      case INT64: return plain(type, little.getLong());
      case FLOAT: return little.getFloat();
      case DOUBLE: return little.getDouble();
      default: return plain(type, Binary.fromConstantByteBuffer(bytes.duplicate()));
    }
  }

  /** `raw` is what parquet-java holds for the physical type. */
  static Object plain(PrimitiveType type, Object raw) {
    LogicalTypeAnnotation logical = type.getLogicalTypeAnnotation();
    if (type.getPrimitiveTypeName() == PrimitiveType.PrimitiveTypeName.INT96) {
      NanoTime time = NanoTime.fromBinary((Binary) raw);
      return (time.getJulianDay() - 2440588L) * 86_400_000_000L + time.getTimeOfDayNanos() / 1000;
    }
    if (logical instanceof DecimalLogicalTypeAnnotation) {
      BigInteger unscaled = raw instanceof Binary
          ? new BigInteger(((Binary) raw).getBytes()) : BigInteger.valueOf(((Number) raw).longValue());
      return new BigDecimal(unscaled, ((DecimalLogicalTypeAnnotation) logical).getScale());
    }
    if (logical instanceof TimestampLogicalTypeAnnotation) {
      long time = (Long) raw;
      switch (((TimestampLogicalTypeAnnotation) logical).getUnit()) {
        case MILLIS: return time * 1000;
        case NANOS: return Math.floorDiv(time, 1000L);
        default: return time;
      }
    }
    if (!(raw instanceof Binary)) return raw;
    return logical instanceof StringLogicalTypeAnnotation
        ? (Object) ((Binary) raw).toStringUsingUTF8() : ((Binary) raw).getBytes();
  }
}
