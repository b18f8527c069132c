package gantry.official;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.net.ServerSocket;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.rocketmq.common.MixAll;

/**
 * Has servers started and stopped by the parent process. Requests on standard output, answers on standard input, fields
 * separated by tabs:
 *
 * <pre>
 *   start ID namesrv|broker FILE     ok ID | failed ID REASON     when it is ready
 *   stop ID                          ok ID | failed ID REASON     when it has ended
 * </pre>
 *
 * FILE is a file of Java properties, in the folder that is the server's own.
 */
public final class Servers {
    private Servers() { }

    static PrintStream out;
    private static final File DIR = new File(System.getProperty("official.dir"));
    private static final Map<String, CompletableFuture<String>> PENDING = new ConcurrentHashMap<>();
    private static int last;

    static synchronized void say(String... words) {
        out.println(String.join("\t", words));
        out.flush();
    }

    static void answer(String[] words) {
        CompletableFuture<String> f = PENDING.remove(words[1]);
        if (f != null) {
            f.complete(words[0].equals("ok") ? "" : words[2]);
        }
    }

    private static void ask(String id, String... words) {
        CompletableFuture<String> f = new CompletableFuture<>();
        PENDING.put(id, f);
        say(words);
        String trouble = f.join();
        if (!trouble.isEmpty()) {
            throw new IllegalStateException(String.join(" ", words) + ": " + trouble);
        }
    }

    /** Starts a server of a kind with these properties and gives what {@link #stop} takes. */
    public static String start(String kind, Properties properties) {
        String id;
        synchronized (Servers.class) {
            id = kind + "-" + ++last;
        }
        File file = new File(new File(DIR, id), kind + ".conf");
        file.getParentFile().mkdirs();
        try (PrintWriter w = new PrintWriter(file, "UTF-8")) {
            for (String k : new TreeSet<>(properties.stringPropertyNames())) {
                w.println(k + "=" + properties.getProperty(k));
            }
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        ask(id, "start", id, kind, file.getPath());
        return id;
    }

    /** Ends the server in order. A null, for one that never ran, is nothing. */
    public static void stop(String id) {
        if (id != null) {
            ask(id, "stop", id);
        }
    }

    /** The properties of an object that differ from those of a fresh one. */
    public static Properties changed(Object object, Object fresh) {
        Properties now = MixAll.object2Properties(object);
        Properties then = MixAll.object2Properties(fresh);
        Properties changed = new Properties();
        for (String k : now.stringPropertyNames()) {
            if (!now.getProperty(k).equals(then.getProperty(k))) {
                changed.setProperty(k, now.getProperty(k));
            }
        }
        return changed;
    }

    /** A port that is free with the one two below it and the one above, and not of those the kernel gives to callers. */
    public static int freePort() {
        for (int i = 0; i < 200; i++) {
            int port = ThreadLocalRandom.current().nextInt(10_010, 30_000);
            try (ServerSocket fast = new ServerSocket(port - 2); ServerSocket main = new ServerSocket(port);
                 ServerSocket ha = new ServerSocket(port + 1)) {
                return port;
            } catch (IOException busy) {
                // another
            }
        }
        throw new IllegalStateException("no free ports");
    }
}
