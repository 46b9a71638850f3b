import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URI;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.distributedlog.DLSN;
import org.apache.distributedlog.DistributedLogConfiguration;
import org.apache.distributedlog.LogRecord;
import org.apache.distributedlog.LogRecordWithDLSN;
import org.apache.distributedlog.api.AsyncLogReader;
import org.apache.distributedlog.api.AsyncLogWriter;
import org.apache.distributedlog.api.DistributedLogManager;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.api.namespace.NamespaceBuilder;
import org.apache.distributedlog.impl.metadata.BKDLConfig;
import org.apache.distributedlog.metadata.DLMetadata;

/**
 * An application of Apache DistributedLog's own client.
 *
 * usage: StreamOfNumbers ZOOKEEPER bind | write STREAM FIRST COUNT PER_SEGMENT | read STREAM COUNT |
 * delete STREAM. ``write`` prints "acknowledged N" for each number when it is acknowledged, and goes on
 * in a new segment after PER_SEGMENT numbers; ``read`` prints each record and whether it was in order.
 */
public class StreamOfNumbers {
    static final int OUTSTANDING_MAX = 200;

    public static void main(String[] args) {
        try {
            run(args);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // threads of the client would keep the process alive
        }
        System.exit(0);
    }

    static void run(String[] args) throws Exception {
        URI uri = URI.create("distributedlog://" + args[0] + "/distributedlog");
        if (args[1].equals("bind")) {
            DLMetadata.create(new BKDLConfig(args[0], "/ledgers")).create(uri);
            return;
        }
        DistributedLogConfiguration conf = new DistributedLogConfiguration();
        conf.setEnsembleSize(3).setWriteQuorumSize(3).setAckQuorumSize(2);
        conf.setImmediateFlushEnabled(true);
        conf.setOutputBufferSize(0);
        conf.setPeriodicFlushFrequencyMilliSeconds(0);
        conf.setCreateStreamIfNotExists(true);
        conf.setZKSessionTimeoutSeconds(5);
        conf.setLockTimeout(30);
        if (args[1].equals("write")) {
            conf.setLogSegmentRollingIntervalMinutes(0);
            conf.setMaxLogSegmentBytes(Long.parseLong(args[5]));
        }
        Namespace namespace = NamespaceBuilder.newBuilder().conf(conf).uri(uri).clientId("numbers").build();
        switch (args[1]) {
            case "write":
                write(namespace.openLog(args[2]), Long.parseLong(args[3]), Long.parseLong(args[4]));
                break;
            case "read":
                read(namespace.openLog(args[2]), Long.parseLong(args[3]));
                break;
            default:
                namespace.deleteLog(args[2]);
        }
        namespace.close();
    }

    static void write(DistributedLogManager log, long first, long count) throws Exception {
        AsyncLogWriter writer = log.openAsyncLogWriter().get(120, TimeUnit.SECONDS);
        ArrayDeque<CompletableFuture<DLSN>> pending = new ArrayDeque<>();
        long acknowledged = first;
        for (long number = first; number < first + count || !pending.isEmpty();) {
            if (number < first + count && pending.size() < OUTSTANDING_MAX) {
                pending.add(writer.write(new LogRecord(number, Long.toString(number).getBytes(UTF_8))));
                number++;
                continue;
            }
            pending.remove().get(60, TimeUnit.SECONDS);
            System.out.println("acknowledged " + acknowledged++);
        }
        writer.asyncClose().get(60, TimeUnit.SECONDS);
        System.out.println("segments " + log.getLogSegments().size());
        log.close();
    }

    static void read(DistributedLogManager log, long count) throws Exception {
        AsyncLogReader reader = log.openAsyncLogReader(DLSN.InitialDLSN).get(60, TimeUnit.SECONDS);
        long found = 0;
        while (found < count) {
            List<LogRecordWithDLSN> records = reader.readBulk(256).get(60, TimeUnit.SECONDS);
            for (LogRecordWithDLSN record : records) {
                System.out.println("record " + new String(record.getPayload(), UTF_8));
                found++;
            }
        }
        System.out.println("segments " + log.getLogSegments().size());
        reader.asyncClose().get(60, TimeUnit.SECONDS);
        log.close();
    }
}
