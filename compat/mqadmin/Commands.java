import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.Option;
import org.apache.commons.cli.Options;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * Runs commands of mqadmin in one JVM, which saves a start for each. A line of the standard input is a list of command
 * lines, separated by semicolons, that run at the same time; the next line begins when all have ended. For each command
 * its line is printed with "$ " before it, and then what it said.
 */
public class Commands {
    private static final ThreadLocal<OutputStream> SAID = new ThreadLocal<>();

    public static void main(String[] args) throws Exception {
        PrintStream console = System.out;
        System.setProperty("rocketmq.namesrv.addr", args[0]);
        System.setOut(new PrintStream(new OutputStream() {
            @Override
            public void write(int b) throws IOException {
                OutputStream to = SAID.get();
                if (to != null) {
                    to.write(b);
                }
            }
        }, true, "UTF-8"));
        MQAdminStartup.initCommand();
        ExecutorService workers = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<Future<String>> running = new ArrayList<>();
            for (String command : line.split(";")) {
                running.add(workers.submit(() -> run(command.trim())));
                Thread.sleep(20); // admin clients are named by the millisecond of their start
            }
            for (Future<String> f : running) {
                console.print(f.get());
            }
            console.flush();
        }
        System.exit(0);
    }

    private static String run(String command) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        SAID.set(said);
        PrintStream out = System.out;
        out.println("$ " + command);
        try {
            String[] words = command.split(" +");
            String[] rest = new String[words.length - 1];
            System.arraycopy(words, 1, rest, 0, rest.length);
            SubCommand sub = find(words[0]);
            Options options = new Options();
            options.addOption(new Option("n", "namesrvAddr", true, "name servers"));
            options = sub.buildCommandlineOptions(options);
            CommandLine line = new DefaultParser().parse(options, rest);
            execute(sub, line, options);
        } catch (Throwable e) {
            e.printStackTrace(out);
        }
        out.println();
        out.flush();
        return new String(said.toByteArray(), StandardCharsets.UTF_8);
    }

    /** Once more when another command has taken the name of this millisecond. */
    private static void execute(SubCommand sub, CommandLine line, Options options) throws Exception {
        for (int tries = 0;; tries++) {
            try {
                sub.execute(line, options, null);
                return;
            } catch (Exception e) {
                boolean taken = e.getCause() != null && String.valueOf(e.getCause().getMessage()).contains("has created already");
                if (!taken || tries == 5) {
                    throw e;
                }
                Thread.sleep(7);
            }
        }
    }

    private static SubCommand find(String name) throws Exception {
        java.lang.reflect.Field f = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
        f.setAccessible(true);
        for (Object c : (List<?>) f.get(null)) {
            if (((SubCommand) c).commandName().equalsIgnoreCase(name)) {
                return ((SubCommand) c).getClass().getDeclaredConstructor().newInstance();
            }
        }
        throw new IllegalArgumentException("no command " + name);
    }
}
