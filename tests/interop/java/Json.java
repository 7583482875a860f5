import java.math.BigDecimal;
import java.util.*;

/**
 * Values in the one form that all programs of these tests use: bytes as hex, decimals as text, times as microseconds,
 * dates as days, maps as pairs, records as objects; "NaN" and "Infinity" as text.
 */
class Json {
  static String text(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  static void write(Object value, StringBuilder out) {
    if (value instanceof Map) {
      String comma = "{";
      for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
        out.append(comma).append(quote(entry.getKey().toString())).append(":");
        write(entry.getValue(), out);
        comma = ",";
      }
      out.append(comma.equals("{") ? "{}" : "}");
    } else if (value instanceof Collection) {
      String comma = "[";
      for (Object item : (Collection<?>) value) {
        out.append(comma);
        write(item, out);
        comma = ",";
      }
      out.append(comma.equals("[") ? "[]" : "]");
    } else if (value instanceof byte[]) {
      out.append(quote(hex((byte[]) value)));
    } else if (value instanceof BigDecimal) {
      out.append(quote(((BigDecimal) value).toPlainString()));
    } else if (value instanceof String) {
      out.append(quote((String) value));
    } else if (value instanceof Number && !Double.isFinite(((Number) value).doubleValue())) {
      out.append(quote(value.toString()));
    } else {
      out.append(value);
    }
  }

  static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte b : bytes) text.append(String.format("%02x", b));
    return text.toString();
  }

  static String quote(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < 32 || c > 126) out.append(String.format("\\u%04x", (int) c));
      else out.append(c);
    }
    return out.append('"').toString();
  }
}
