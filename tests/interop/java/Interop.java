import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * An application of Apache BookKeeper's own client, run against whatever bookies are registered.
 *
 * usage: Interop METADATA_URI v2|v3 STEP [STEP ...], where a step is name or name:argument. Prints one
 * line "ok STEP DETAIL" for each step and exits 0, or "failed STEP ..." and exits 1.
 */
public class Interop {
    static final byte[] PASSWORD = "secret".getBytes(UTF_8);
    static BookKeeper client;
    static boolean isV2;

    public static void main(String[] args) throws Exception {
        isV2 = args[1].equals("v2");
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(args[0]);
        conf.setUseV2WireProtocol(isV2);
        conf.setExplictLacInterval(50);
        String tls = System.getProperty("tls"); // a directory with certificates
        if (tls != null) {
            conf.setTLSProviderFactoryClass("org.apache.bookkeeper.tls.TLSContextFactory");
            conf.setTLSProvider("JDK");
            conf.setTLSClientAuthentication(true);
            conf.setTLSKeyStoreType("PEM").setTLSKeyStore(tls + "/client.key");
            conf.setTLSCertificatePath(tls + "/client.pem");
            conf.setTLSTrustStoreType("PEM").setTLSTrustStore(tls + "/ca.pem");
        }
        client = new BookKeeper(conf);
        int status = 0;
        for (String step : Arrays.asList(args).subList(2, args.length)) {
            String[] words = step.split(":", 2);
            try {
                System.out.println("ok " + step + " " + run(words[0], words.length > 1 ? words[1] : ""));
            } catch (Throwable error) {
                System.out.println("failed " + step + " " + error);
                error.printStackTrace(System.out);
                status = 1;
            }
            System.out.flush();
        }
        client.close();
        System.exit(status);
    }

    static String run(String step, String argument) throws Exception {
        switch (step) {
            case "write-and-read": return writeAndRead(Integer.parseInt(argument));
            case "tail": return tail(Integer.parseInt(argument));
            case "fence-a-writer": return fenceAWriter();
            case "explicit-lac": return explicitLac();
            case "batch-read": return batchRead();
            case "delete": return delete();
            case "read": return read(Long.parseLong(argument));
            case "recover": return recover(Long.parseLong(argument));
            case "make": return make(Integer.parseInt(argument));
            default: throw new IllegalArgumentException(step);
        }
    }

    static LedgerHandle create() throws Exception {
        return client.createLedger(3, 3, 2, DigestType.CRC32C, PASSWORD);
    }

    static byte[] payload(long id) {
        return ("entry " + id + " " + "x".repeat((int) (id % 200))).getBytes(UTF_8);
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    /** Pipelined adds; each callback must come in order. */
    static void add(LedgerHandle ledger, int count) throws Exception {
        List<CompletableFuture<Long>> acks = new ArrayList<>();
        long first = ledger.getLastAddPushed() + 1;
        for (int i = 0; i < count; i++) {
            acks.add(ledger.appendAsync(payload(first + i)));
        }
        for (int i = 0; i < count; i++) {
            long id = acks.get(i).get(30, TimeUnit.SECONDS);
            check(id == first + i, "acknowledged " + id + " instead of " + (first + i));
        }
    }

    static long checkEntries(Enumeration<LedgerEntry> entries, long from) {
        long next = from;
        for (; entries.hasMoreElements(); next++) {
            LedgerEntry entry = entries.nextElement();
            check(entry.getEntryId() == next, "read " + entry.getEntryId() + " instead of " + next);
            check(Arrays.equals(entry.getEntry(), payload(next)), "entry " + next + " differs");
        }
        return next;
    }

    static String writeAndRead(int count) throws Exception {
        LedgerHandle ledger = create();
        add(ledger, count);
        ledger.close();
        LedgerHandle opened = client.openLedger(ledger.getId(), DigestType.CRC32C, PASSWORD);
        check(opened.getLastAddConfirmed() == count - 1, "ends at " + opened.getLastAddConfirmed());
        for (long from = 0; from < count; ) {
            from = checkEntries(opened.readEntries(from, Math.min(from + 999, count - 1)), from);
        }
        opened.close();
        return "ledger=" + ledger.getId() + " entries=" + count;
    }

    static String make(int count) throws Exception {
        LedgerHandle ledger = create();
        add(ledger, count);
        ledger.close();
        return "ledger=" + ledger.getId();
    }

    /** Follows a ledger by long poll while it is being written, to its end. */
    static String tail(int count) throws Exception {
        LedgerHandle ledger = create();
        add(ledger, 1);
        ReadHandle reader = client.newOpenLedgerOp().withLedgerId(ledger.getId()).withPassword(PASSWORD)
            .withDigestType(org.apache.bookkeeper.client.api.DigestType.CRC32C).withRecovery(false)
            .execute().get(30, TimeUnit.SECONDS);
        Thread writer = new Thread(() -> {
            try {
                for (int i = 1; i < count; i++) {
                    ledger.append(payload(i));
                }
                ledger.close();
            } catch (Exception error) {
                error.printStackTrace(System.out);
            }
        });
        writer.start();
        long next = 0;
        int piggybacked = 0;
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (next < count) {
            check(System.nanoTime() < until, "only " + next + " entries in a minute");
            try (LastConfirmedAndEntry found =
                     reader.readLastAddConfirmedAndEntryAsync(next, 1000, false).get(30, TimeUnit.SECONDS)) {
                if (found.hasEntry()) {
                    check(found.getEntry().getEntryId() == next, "polled " + found.getEntry().getEntryId());
                    check(Arrays.equals(found.getEntry().getEntryBytes(), payload(next)), "entry " + next);
                    piggybacked++;
                    next++;
                }
                long confirmed = found.getLastAddConfirmed();
                if (next <= confirmed) {
                    try (var entries = reader.read(next, confirmed)) {
                        for (var entry : entries) {
                            check(Arrays.equals(entry.getEntryBytes(), payload(next)), "entry " + next);
                            next++;
                        }
                    }
                }
            }
        }
        writer.join(30_000);
        reader.close();
        return "entries=" + next + " piggybacked=" + piggybacked;
    }

    static String fenceAWriter() throws Exception {
        LedgerHandle writer = create();
        add(writer, 100);
        LedgerHandle recovered = client.openLedger(writer.getId(), DigestType.CRC32C, PASSWORD);
        check(recovered.getLastAddConfirmed() == 99, "recovered to " + recovered.getLastAddConfirmed());
        try {
            writer.append(payload(100));
        } catch (BKException.BKLedgerFencedException expected) {
            return "fenced=" + expected.getCode();
        }
        throw new AssertionError("the writer was not fenced");
    }

    static String explicitLac() throws Exception {
        LedgerHandle writer = create();
        add(writer, 10);
        LedgerHandle reader = client.openLedgerNoRecovery(writer.getId(), DigestType.CRC32C, PASSWORD);
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        long lac = -1;
        while (lac < 9) {
            check(System.nanoTime() < until, "the explicit LAC stays at " + lac);
            lac = reader.readExplicitLastConfirmed();
        }
        checkEntries(reader.readEntries(0, 9), 0);
        writer.close();
        return "lac=" + lac;
    }

    static String batchRead() throws Exception {
        LedgerHandle ledger = create();
        add(ledger, 500);
        ledger.close();
        LedgerHandle opened = client.openLedger(ledger.getId(), DigestType.CRC32C, PASSWORD);
        long next = 0;
        int batches = 0;
        while (next < 500) {
            next = checkEntries(opened.batchReadEntries(next, 64, 1 << 20), next);
            batches++;
        }
        check(batches < 500, "every batch had one entry");
        return "entries=" + next + " batches=" + batches;
    }

    static String delete() throws Exception {
        LedgerHandle ledger = create();
        add(ledger, 10);
        ledger.close();
        client.deleteLedger(ledger.getId());
        try {
            client.openLedger(ledger.getId(), DigestType.CRC32C, PASSWORD);
        } catch (BKException expected) {
            return "code=" + expected.getCode();
        }
        throw new AssertionError("a deleted ledger was opened");
    }

    /** Opens without recovery and reads everything that is confirmed. */
    static String read(long id) throws Exception {
        LedgerHandle ledger = client.openLedgerNoRecovery(id, DigestType.CRC32C, PASSWORD);
        long last = ledger.getLastAddConfirmed();
        long next = last < 0 ? 0 : checkEntries(ledger.readEntries(0, last), 0);
        return "entries=" + next + " closed=" + ledger.isClosed();
    }

    /** Fences and closes a ledger that somebody else wrote, then reads it. */
    static String recover(long id) throws Exception {
        LedgerHandle ledger = client.openLedger(id, DigestType.CRC32C, PASSWORD);
        long last = ledger.getLastAddConfirmed();
        long next = last < 0 ? 0 : checkEntries(ledger.readEntries(0, last), 0);
        check(next == last + 1, "read " + next + " entries of " + (last + 1));
        return "entries=" + next;
    }
}
