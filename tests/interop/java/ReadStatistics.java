import java.nio.ByteBuffer;
import java.nio.file.Paths;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.orc.*;
import org.apache.parquet.column.statistics.Statistics;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.*;
import org.apache.parquet.internal.column.columnindex.*;
import org.apache.parquet.io.LocalInputFile;
import org.apache.parquet.schema.PrimitiveType;

/**
 * Prints what the Java implementations find in the footers and indexes of files, one line of JSON a file behind
 * "== FILE": of Parquet each column of each row group with its statistics, offset index and column index, of ORC the
 * columns' statistics of the file and of each stripe.
 */
public class ReadStatistics {
  public static void main(String[] arguments) {
    for (String file : arguments) {
      System.out.println("== " + file);
      try {
        System.out.println(Json.text(file.endsWith(".orc") ? orc(file) : parquet(file)));
      } catch (Throwable failure) {
        System.out.println("ERROR " + failure);
      }
    }
  }

  static Map<String, Object> parquet(String file) throws Exception {
    Map<String, Object> out = new LinkedHashMap<>();
    try (ParquetFileReader reader = ParquetFileReader.open(new LocalInputFile(Paths.get(file)))) {
      out.put("rows", reader.getRecordCount());
      List<Object> groups = new ArrayList<>();
      for (BlockMetaData block : reader.getFooter().getBlocks()) {
        List<Object> columns = new ArrayList<>();
        for (ColumnChunkMetaData chunk : block.getColumns()) columns.add(chunk(reader, chunk));
        groups.add(Map.of("rows", block.getRowCount(), "columns", columns));
      }
      out.put("groups", groups);
    }
    return out;
  }

  static Map<String, Object> chunk(ParquetFileReader reader, ColumnChunkMetaData chunk) throws Exception {
    PrimitiveType type = chunk.getPrimitiveType();
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("path", chunk.getPath().toDotString());
    out.put("values", chunk.getValueCount());
    out.put("bytes", chunk.getTotalSize());
    out.put("raw_bytes", chunk.getTotalUncompressedSize());
    out.put("codec", chunk.getCodec().name());
    out.put("has_dictionary", chunk.hasDictionaryPage());
    Set<String> encodings = new TreeSet<>();
    chunk.getEncodings().forEach(encoding -> encodings.add(encoding.name()));
    out.put("encodings", encodings);
    Statistics<?> statistics = chunk.getStatistics();
    out.put("null_count", statistics.isNumNullsSet() ? statistics.getNumNulls() : null);
    boolean hasBounds = statistics.hasNonNullValue();
    out.put("min", hasBounds ? ParquetValues.plain(type, statistics.genericGetMin()) : null);
    out.put("max", hasBounds ? ParquetValues.plain(type, statistics.genericGetMax()) : null);
    OffsetIndex offsets = reader.readOffsetIndex(chunk);
    if (offsets != null) {
      List<Object> pages = new ArrayList<>();
      for (int p = 0; p < offsets.getPageCount(); ++p) {
        pages.add(Map.of("offset", offsets.getOffset(p), "bytes", offsets.getCompressedPageSize(p),
            "first_row", offsets.getFirstRowIndex(p)));
      }
      out.put("pages", pages);
    }
    ColumnIndex index = reader.readColumnIndex(chunk);
    if (index != null) {
      out.put("order", index.getBoundaryOrder().name());
      out.put("null_pages", index.getNullPages());
      out.put("null_counts", index.getNullCounts());
      out.put("mins", bounds(type, index, index.getMinValues()));
      out.put("maxs", bounds(type, index, index.getMaxValues()));
    }
    return out;
  }

  static List<Object> bounds(PrimitiveType type, ColumnIndex index, List<ByteBuffer> values) {
    List<Object> out = new ArrayList<>();
    for (int p = 0; p < values.size(); ++p) {
      out.add(index.getNullPages().get(p) ? null : ParquetValues.ofBytes(type, values.get(p)));
    }
    return out;
  }

  static Map<String, Object> orc(String file) throws Exception {
    Map<String, Object> out = new LinkedHashMap<>();
    try (Reader reader = OrcFile.createReader(new Path(file), OrcFile.readerOptions(new Configuration()))) {
      out.put("rows", reader.getNumberOfRows());
      out.put("file", columns(reader.getSchema(), reader.getStatistics()));
      List<Object> stripes = new ArrayList<>();
      List<StripeStatistics> statistics = reader.getStripeStatistics();
      for (int s = 0; s < statistics.size(); ++s) {
        stripes.add(Map.of("rows", reader.getStripes().get(s).getNumberOfRows(),
            "columns", columns(reader.getSchema(), statistics.get(s).getColumnStatistics())));
      }
      out.put("stripes", stripes);
    }
    return out;
  }

  // By name, of the columns of the top level.
  static Map<String, Object> columns(TypeDescription schema, ColumnStatistics[] statistics) {
    Map<String, Object> out = new LinkedHashMap<>();
    for (int c = 0; c < schema.getChildren().size(); ++c) {
      ColumnStatistics one = statistics[schema.getChildren().get(c).getId()];
      Map<String, Object> column = new LinkedHashMap<>();
      column.put("values", one.getNumberOfValues());
      column.put("has_null", one.hasNull());
      if (one.getNumberOfValues() > 0) bounds(one, column);
      out.put(schema.getFieldNames().get(c), column);
    }
    return out;
  }

  static void bounds(ColumnStatistics statistics, Map<String, Object> out) {
    if (statistics instanceof IntegerColumnStatistics) {
      out.put("min", ((IntegerColumnStatistics) statistics).getMinimum());
      out.put("max", ((IntegerColumnStatistics) statistics).getMaximum());
    } else if (statistics instanceof DoubleColumnStatistics) {
      out.put("min", ((DoubleColumnStatistics) statistics).getMinimum());
      out.put("max", ((DoubleColumnStatistics) statistics).getMaximum());
    } else if (statistics instanceof StringColumnStatistics) {
      out.put("min", ((StringColumnStatistics) statistics).getLowerBound());
      out.put("max", ((StringColumnStatistics) statistics).getUpperBound());
    } else if (statistics instanceof DecimalColumnStatistics) {
      out.put("min", ((DecimalColumnStatistics) statistics).getMinimum().bigDecimalValue());
      out.put("max", ((DecimalColumnStatistics) statistics).getMaximum().bigDecimalValue());
    } else if (statistics instanceof DateColumnStatistics) {
      out.put("min", ((DateColumnStatistics) statistics).getMinimumDayOfEpoch());
      out.put("max", ((DateColumnStatistics) statistics).getMaximumDayOfEpoch());
    } else if (statistics instanceof TimestampColumnStatistics) {
      // As microseconds; statistics of ORC hold times as milliseconds and nanoseconds.
      out.put("min", micros(((TimestampColumnStatistics) statistics).getMinimumUTC()));
      out.put("max", micros(((TimestampColumnStatistics) statistics).getMaximumUTC()));
    } else if (statistics instanceof BooleanColumnStatistics) {
      out.put("true_count", ((BooleanColumnStatistics) statistics).getTrueCount());
    }
  }

  static long micros(java.sql.Timestamp time) {
    return Math.floorDiv(time.getTime(), 1000L) * 1_000_000L + time.getNanos() / 1000;
  }
}
