import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;

/** Reads a table with Apache Iceberg's own library, and prints what it finds, one fact a line. */
public class ReadTable {
  public static void main(String[] args) throws Exception {
    String namespace = args[1], name = args[2], since = args[3], until = args[4];
    try (JdbcCatalog catalog = new JdbcCatalog()) {
      catalog.setConf(new Configuration());
      catalog.initialize("rhumbline", Map.of(
          "uri", "jdbc:sqlite:" + args[0], "warehouse", "file:///nowhere",
          "jdbc.schema-version", "V1"));
      Table table = catalog.loadTable(TableIdentifier.of(Namespace.of(namespace), name));
      for (Types.NestedField field : table.schema().columns()) {
        System.out.printf("column %d %s %s %s%n", field.fieldId(), field.name(),
            field.isRequired() ? "required" : "optional", field.type());
      }
      System.out.println("sorted " + table.sortOrder().fields().size());
      for (Snapshot snapshot : table.snapshots()) {
        Map<String, String> summary = snapshot.summary();
        System.out.printf("snapshot %s %s %s%n", snapshot.operation(),
            summary.get("rhumbline.first-lssn"), summary.get("rhumbline.last-lssn"));
      }
      System.out.println("all " + digest(table, Expressions.alwaysTrue()));
      Expression range = Expressions.and(Expressions.greaterThanOrEqual("created", since),
          Expressions.lessThan("created", until));
      System.out.println("range " + digest(table, range));
      int files = 0;
      try (CloseableIterable<FileScanTask> tasks = table.newScan().filter(range).planFiles()) {
        for (FileScanTask task : tasks) {
          files++;
        }
      }
      System.out.println("files " + files);
    }
  }

  private static String digest(Table table, Expression filter) throws Exception {
    List<Record> rows = new ArrayList<>();
    try (CloseableIterable<Record> found = IcebergGenerics.read(table).where(filter).build()) {
      found.forEach(rows::add);
    }
    rows.sort(Comparator.<Record, Long>comparing(row -> (Long) row.getField("lssn"))
        .thenComparing(row -> (Long) row.getField("entry_id"))
        .thenComparing(row -> (Integer) row.getField("slot")));
    MessageDigest sha = MessageDigest.getInstance("SHA-256");
    for (Record row : rows) {
      sha.update(line(row).getBytes());
    }
    return rows.size() + " " + HexFormat.of().formatHex(sha.digest());
  }

  private static String line(Record row) {
    StringBuilder headers = new StringBuilder();
    Map<?, ?> found = (Map<?, ?>) row.getField("headers");
    if (found != null) {
      TreeMap<String, String> sorted = new TreeMap<>();
      found.forEach((name, value) -> sorted.put(name.toString(), hex(value)));
      sorted.forEach((name, value) -> headers.append(name).append('=').append(value).append(','));
    }
    return String.join(" ", row.getField("lssn").toString(), row.getField("entry_id").toString(),
        row.getField("slot").toString(), row.getField("txid").toString(),
        micros(row.getField("created")), hex(row.getField("payload")), hex(row.getField("key")),
        micros(row.getField("event_time")), headers) + "\n";
  }

  private static String micros(Object time) {
    return time == null ? "-"
        : "" + ChronoUnit.MICROS.between(Instant.EPOCH, ((OffsetDateTime) time).toInstant());
  }

  private static String hex(Object value) {
    if (value == null) {
      return "-";
    }
    ByteBuffer buffer = ((ByteBuffer) value).duplicate();
    byte[] bytes = new byte[buffer.remaining()];
    buffer.get(bytes);
    return HexFormat.of().formatHex(bytes);
  }
}
