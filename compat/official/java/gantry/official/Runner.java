package gantry.official;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs JUnit 4 classes of the official suite in this JVM, one after the other, as they are ordered on standard input:
 *
 * <pre>
 *   run CLASS METHOD,METHOD     the class without these methods (- for none)
 *   quit
 * </pre>
 *
 * On standard output it answers (fields separated by tabs)
 *
 * <pre>
 *   test CLASS METHOD PASS|FAIL|SKIP|INPROC|ERROR MILLIS MESSAGE PLACE
 *   done CLASS MILLIS
 * </pre>
 *
 * INPROC: the test asks for what only a server in its own JVM has. What the suite itself prints goes to standard error.
 * The same two streams carry the requests for servers, see {@link Servers}. Time limits are the parent's business: it kills
 * this process.
 */
public final class Runner {
    private Runner() { }

    public static void main(String[] args) throws Exception {
        Servers.out = System.out;
        System.setOut(System.err);
        BlockingQueue<String[]> orders = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(orders), "orders");
        reader.setDaemon(true);
        reader.start();
        while (true) {
            String[] order = orders.take();
            if (order[0].equals("quit")) {
                // Skips the suite's shutdown hook: it stops the servers, which the parent does.
                Runtime.getRuntime().halt(0);
            }
            run(order[1], new HashSet<>(Arrays.asList(order[2].split(","))));
        }
    }

    private static void read(BlockingQueue<String[]> orders) {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split("\t");
                if (words[0].equals("run") || words[0].equals("quit")) {
                    orders.add(words);
                } else {
                    Servers.answer(words);
                }
            }
        } catch (java.io.IOException e) {
            e.printStackTrace();
        }
        Runtime.getRuntime().halt(1); // the parent is gone
    }

    private static void run(String name, Set<String> without) {
        long begin = System.nanoTime();
        System.err.println("### " + name);
        Listener listener = new Listener(name);
        try {
            Request request = Request.aClass(Class.forName(name)).filterWith(new Filter() {
                @Override public boolean shouldRun(Description d) {
                    return !d.isTest() || !without.contains(d.getMethodName());
                }

                @Override public String describe() {
                    return "without " + without;
                }
            });
            JUnitCore core = new JUnitCore();
            core.addListener(listener);
            core.run(request);
        } catch (Throwable t) {
            t.printStackTrace();
            listener.say("-", "ERROR", 0, t);
        }
        Servers.say("done", name, "" + (System.nanoTime() - begin) / 1_000_000);
    }

    private static final class Listener extends RunListener {
        private final String name;
        private final Map<Description, Long> begun = new ConcurrentHashMap<>();
        private final Map<Description, Throwable> failed = new ConcurrentHashMap<>();

        Listener(String name) {
            this.name = name;
        }

        @Override public void testStarted(Description d) {
            System.err.println("### " + d.getMethodName());
            begun.put(d, System.nanoTime());
        }

        @Override public void testFailure(Failure f) {
            Throwable t = f.getException();
            t.printStackTrace();
            if (f.getDescription().isTest()) {
                failed.putIfAbsent(f.getDescription(), t);
            } else {
                say("-", "ERROR", 0, t); // the class as a whole: its static parts, @BeforeClass, @AfterClass
            }
        }

        @Override public void testAssumptionFailure(Failure f) {
            say(method(f.getDescription()), "SKIP", 0, f.getException());
        }

        @Override public void testIgnored(Description d) {
            say(method(d), "SKIP", 0, null);
        }

        @Override public void testFinished(Description d) {
            Throwable t = failed.get(d);
            long millis = (System.nanoTime() - begun.remove(d)) / 1_000_000;
            say(method(d), t == null ? "PASS" : inProcess(t) ? "INPROC" : "FAIL", millis, t);
        }

        private static String method(Description d) {
            return d.getMethodName() == null ? "-" : d.getMethodName();
        }

        private static boolean inProcess(Throwable t) {
            for (; t != null; t = t.getCause()) {
                if (t instanceof LinkageError || t instanceof Wire.InProcessOnly) {
                    return true;
                }
            }
            return false;
        }

        void say(String method, String outcome, long millis, Throwable t) {
            String message = "";
            String place = "";
            if (t != null) {
                message = String.valueOf(t).replaceAll("\\s+", " ");
                message = message.substring(0, Math.min(300, message.length()));
                for (StackTraceElement e : t.getStackTrace()) {
                    if (e.getClassName().startsWith("org.apache.rocketmq.test")) {
                        place = e.getFileName() + ":" + e.getLineNumber();
                        break;
                    }
                }
            }
            Servers.say("test", name, method, outcome, "" + millis, message, place);
        }
    }
}
