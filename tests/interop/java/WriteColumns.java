import java.io.PrintWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.*;
import java.util.*;

/**
 * WriteColumns FOLDER ROWS [few]: the same rows as rows.jsonl (Json) and as files of the Java implementations: Parquet
 * of both page versions and all codecs that it has without native code of others, ORC and Avro of all codecs. `few`:
 * one file of each kind, for the golden files.
 */
public class WriteColumns {
  public static void main(String[] arguments) throws Exception {
    Path folder = Paths.get(arguments[0]);
    List<Map<String, Object>> rows = rows(Integer.parseInt(arguments[1]));
    try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(folder.resolve("rows.jsonl")))) {
      for (Map<String, Object> row : rows) out.println(Json.text(row));
    }
    boolean isFew = arguments.length > 2;
    WriteParquet.all(folder, rows, isFew);
    WriteOrc.all(folder, rows, isFew);
    WriteAvro.all(folder, rows, isFew);
  }

  static List<Map<String, Object>> rows(int count) {
    Random random = new Random(7);
    List<Map<String, Object>> rows = new ArrayList<>();
    for (int n = 0; n < count; ++n) rows.add(row(random, n));
    return rows;
  }

  private static Map<String, Object> row(Random random, int n) {
    long number = random.nextLong() >>> 20;
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("i", maybe(random, number - (1L << 43)));
    row.put("n", n);
    row.put("d", maybe(random, (number % 100_000) / 8.0 - 5000));
    row.put("f", maybe(random, n % 50 == 3 ? Float.NaN : n % 7 == 0 ? -0.0f : (number % 64) / 4.0f));
    row.put("b", maybe(random, number % 2 == 0));
    row.put("s", maybe(random, "city" + number % 30 + "é"));
    row.put("u", String.format("%012x", number));
    row.put("y", maybe(random, new byte[] {1, (byte) 255, (byte) number}));
    row.put("x", maybe(random, BigDecimal.valueOf(number % 2_000_000 - 1_000_000, 2)));
    row.put("w", maybe(random, new BigDecimal(
        BigInteger.valueOf(number - (1L << 43)).multiply(BigInteger.valueOf(1_000_000_007)), 4)));
    row.put("t", maybe(random, time(number)));
    row.put("e", maybe(random, (int) (number % 36_000) - 7000));
    row.put("l", random.nextInt(6) == 0 ? null : items(random, number, (int) (number % 4)));
    row.put("r", random.nextInt(6) == 0 ? null : inner(random, number, n));
    row.put("m", random.nextInt(6) == 0 ? null : pairs(random, number));
    row.put("v", random.nextInt(6) == 0 ? null : lists(random, number));
    row.put("h", String.format("%06d", number % 1_000_000).getBytes());
    return row;
  }

  private static <T> T maybe(Random random, T value) {
    return random.nextInt(6) == 0 ? null : value;
  }

  // 1950 to 2050.
  private static long time(long number) {
    return number * 1000 % 3_155_760_000_000_000L - 631_152_000_000_000L;
  }

  private static List<Object> items(Random random, long number, int count) {
    List<Object> items = new ArrayList<>();
    for (int k = 0; k < count; ++k) items.add(maybe(random, (int) (number % 1000) + k));
    return items;
  }

  private static Map<String, Object> inner(Random random, long number, int n) {
    Map<String, Object> inner = new LinkedHashMap<>();
    inner.put("p", maybe(random, n));
    inner.put("q", maybe(random, "q" + number % 5));
    return inner;
  }

  private static List<Object> pairs(Random random, long number) {
    List<Object> pairs = new ArrayList<>();
    for (int k = 0; k < number % 3; ++k) pairs.add(Arrays.asList("k" + k, maybe(random, number + k)));
    return pairs;
  }

  private static List<Object> lists(Random random, long number) {
    List<Object> lists = new ArrayList<>();
    for (int k = 0; k < number % 3; ++k) lists.add(random.nextInt(6) == 0 ? null : items(random, number, k * 2));
    return lists;
  }
}
