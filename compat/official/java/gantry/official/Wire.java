package gantry.official;

import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** How the stand-ins reach a server in another process. */
public final class Wire {
    private Wire() { }

    private static DefaultMQAdminExt admin;

    /** The admin client of this JVM; calls to brokers name their address. */
    public static synchronized DefaultMQAdminExt admin(String namesrv) {
        if (admin == null) {
            DefaultMQAdminExt a = new DefaultMQAdminExt(10_000);
            a.setNamesrvAddr(namesrv);
            a.setInstanceName("official-" + System.nanoTime());
            call(() -> {
                a.start();
                return null;
            });
            admin = a;
        }
        return admin;
    }

    /** An object whose constructor never ran: each method that is used must be overridden. */
    public static <T> T hollow(Class<T> type) {
        return call(() -> {
            java.lang.reflect.Field f = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
            f.setAccessible(true);
            Object unsafe = f.get(null);
            return type.cast(unsafe.getClass().getMethod("allocateInstance", Class.class).invoke(unsafe, type));
        });
    }

    /** Thrown where no request can stand for what a test asks of the server object. */
    public static final class InProcessOnly extends UnsupportedOperationException {
        public InProcessOnly(String what) {
            super("only a server in the same JVM has " + what);
        }
    }

    public interface Call<T> {
        T run() throws Exception;
    }

    /** Runs what throws checked exceptions. */
    public static <T> T call(Call<T> c) {
        try {
            return c.run();
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
