package gantry.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A puppet around the official Java client. It reads one order a line from standard input and runs each on a thread
 * of its own; answers and events go to standard output as lines that start with '@'. Lines are application/x-www-form-urlencoded
 * so that neither side needs a JSON library. What the orders mean is written in compat/agent/agent.go; the Go twin
 * of this program is compat/goclient. The same source compiles against
 * every client from 3.2.6 (with its old package names) to 5.5.0; modern/ against those from 4.6 on.
 */
public final class Agent {
    private static final PrintStream OUT = System.out;

    private final Map<String, Producer> producers = new HashMap<>();
    private final Map<String, Consumer> consumers = new HashMap<>();
    private final Map<String, Puller> pullers = new HashMap<>();

    public static void main(String[] args) throws Exception {
        // The client library may print; what is not ours goes to standard error and so into the log file.
        System.setOut(System.err);
        new Agent().serve();
        System.exit(0); // the client leaves non-daemon threads behind
    }

    private void serve() throws Exception {
        ExecutorService workers = Executors.newCachedThreadPool(r -> {
            Thread t = new Thread(r, "order");
            t.setDaemon(true);
            return t;
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        emit(new Form().put("event", "ready"));
        for (String line; (line = in.readLine()) != null; ) {
            Form order = Form.parse(line);
            if (order.get("op").equals("exit")) {
                return;
            }
            workers.execute(() -> answer(order));
        }
    }

    private void answer(Form order) {
        Form reply = new Form().put("id", order.get("id"));
        try {
            run(order, reply);
            reply.put("ok", "true");
        } catch (Throwable e) {
            e.printStackTrace();
            reply.put("ok", "false").put("error", String.valueOf(e));
        }
        emit(reply);
    }

    private void run(Form o, Form reply) throws Exception {
        switch (o.get("op")) {
            case "producer": {
                Producer p = new Producer(o);
                synchronized (producers) {
                    producers.put(o.get("name"), p);
                }
                return;
            }
            case "send": {
                Producer p;
                synchronized (producers) {
                    p = producers.get(o.get("producer"));
                }
                p.send(o);
                return;
            }
            case "recall": {
                Producer p;
                synchronized (producers) {
                    p = producers.get(o.get("producer"));
                }
                reply.put("msgId", p.recall(o));
                return;
            }
            case "request": {
                Producer p;
                synchronized (producers) {
                    p = producers.get(o.get("producer"));
                }
                p.request(o, reply);
                return;
            }
            case "query": {
                Producer p;
                synchronized (producers) {
                    p = producers.get(o.get("producer"));
                }
                p.query(o, reply);
                return;
            }
            case "puller": {
                Puller p = Puller.make(o);
                synchronized (pullers) {
                    pullers.put(o.get("name"), p);
                }
                p.start();
                return;
            }
            case "consumer": {
                Consumer c = new Consumer(o);
                synchronized (consumers) {
                    consumers.put(o.get("name"), c);
                }
                c.start();
                return;
            }
            case "stop": {
                Producer p;
                Consumer c;
                synchronized (producers) {
                    p = producers.remove(o.get("name"));
                }
                synchronized (consumers) {
                    c = consumers.remove(o.get("name"));
                }
                Puller u;
                synchronized (pullers) {
                    u = pullers.remove(o.get("name"));
                }
                if (p == null && c == null && u == null) {
                    throw new IllegalArgumentException("nothing is called " + o.get("name"));
                }
                if (p != null) {
                    p.stop();
                }
                if (c != null) {
                    c.stop();
                }
                if (u != null) {
                    u.stop();
                }
                return;
            }
            default:
                throw new IllegalArgumentException("unknown op " + o.get("op"));
        }
    }

    static void emit(Form f) {
        String line = "@" + f;
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }
}
