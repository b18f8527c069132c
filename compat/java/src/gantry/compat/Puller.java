package gantry.compat;

/** A consumer that asks for messages itself, on a thread of its own. */
abstract class Puller implements Runnable {
    final String name;
    private final Thread thread = new Thread(this, "puller");
    private volatile boolean stopped;
    private volatile Throwable failure;

    Puller(Form o) {
        name = o.get("name");
    }

    /** The lite pull consumer exists from client 4.6 on. */
    static Puller make(Form o) throws Exception {
        if (o.get("kind").equals("lite")) {
            return (Puller) Class.forName("gantry.compat.LitePuller").getDeclaredConstructor(Form.class).newInstance(o);
        }
        return new ClassicPuller(o);
    }

    void start() {
        thread.setDaemon(true);
        thread.start();
    }

    void stop() throws Exception {
        stopped = true;
        thread.join(40000);
        close();
        if (failure != null) {
            throw new IllegalStateException("pulling failed", failure);
        }
    }

    @Override
    public void run() {
        try {
            while (!stopped) {
                pull();
            }
        } catch (Throwable e) {
            failure = e;
            e.printStackTrace();
        }
    }

    /** One round; it may wait for messages, at most some seconds. */
    abstract void pull() throws Exception;

    /** Commits and ends. */
    abstract void close() throws Exception;
}
