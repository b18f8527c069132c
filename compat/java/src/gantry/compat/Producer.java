package gantry.compat;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

final class Producer {
    private final DefaultMQProducer client;

    Producer(Form o) throws Exception {
        client = make(o);
        client.setNamesrvAddr(o.get("ns"));
        client.setInstanceName(o.get("name"));
        client.setSendMsgTimeout(o.number("timeout", 20000));
        client.setCompressMsgBodyOverHowmuch(o.number("compressOver", 4096));
        client.setMaxMessageSize(4 << 20); // the oldest clients allow 128 KiB
        if (!o.get("compress").isEmpty()) {
            compressWith(o.get("compress"));
        }
        client.start();
    }

    private static DefaultMQProducer make(Form o) throws Exception {
        if (o.get("transactions").equals("true")) {
            return (DefaultMQProducer) Class.forName("gantry.compat.Transactions").getDeclaredMethod("producer", Form.class).invoke(null, o);
        }
        return o.get("trace").equals("true") ? traced(o.get("group")) : new DefaultMQProducer(o.get("group"));
    }

    /** Clients before 4.4 know no trace, hence by reflection. */
    private static DefaultMQProducer traced(String group) throws Exception {
        return DefaultMQProducer.class.getConstructor(String.class, boolean.class, String.class).newInstance(group, true, null);
    }

    /** Only client 5.x lets a program choose the algorithm, hence by reflection. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private void compressWith(String name) throws Exception {
        for (Method m : DefaultMQProducer.class.getMethods()) {
            if (m.getName().equals("setCompressType")) {
                m.invoke(client, Enum.valueOf((Class<Enum>) m.getParameterTypes()[0], name));
                return;
            }
        }
        throw new UnsupportedOperationException("this client has no choice of compression");
    }

    void stop() {
        client.shutdown();
    }

    void send(Form o) throws Exception {
        int count = o.number("count", 1);
        int first = o.number("first", 0);
        List<Message> messages = new ArrayList<>();
        for (int i = first; i < first + count; i++) {
            messages.add(message(o, i));
        }
        int shards = o.number("shards", 0);
        switch (o.get("mode")) {
            case "sync":
                for (int i = 0; i < count; i++) {
                    Message m = messages.get(i);
                    sent(o, m.getKeys(), shards == 0 ? client.send(m) : client.send(m, (queues, msg, n) -> queues.get((Integer) n % shards), first + i));
                }
                return;
            case "oneway":
                for (Message m : messages) {
                    client.sendOneway(m);
                    sent(o, m.getKeys(), null);
                }
                return;
            case "batch":
                sent(o, messages.get(0).getKeys(), batch(messages));
                return;
            case "async":
                async(o, messages);
                return;
            case "transaction":
                for (Message m : messages) {
                    sent(o, m.getKeys(), transaction(m));
                }
                return;
            default:
                throw new IllegalArgumentException("unknown mode " + o.get("mode"));
        }
    }

    /** Clients before 4.0 send no batches, hence by reflection. */
    private SendResult batch(List<Message> messages) throws Exception {
        return (SendResult) DefaultMQProducer.class.getMethod("send", Collection.class).invoke(client, messages);
    }

    /** This form came with 4.3, hence by reflection. */
    private SendResult transaction(Message m) throws Exception {
        return (SendResult) DefaultMQProducer.class.getMethod("sendMessageInTransaction", Message.class, Object.class).invoke(client, m, null);
    }

    /** Waits for the reply to one message; its size and checksum become members of the answer. Clients before 4.6 cannot, hence by reflection. */
    void request(Form o, Form reply) throws Exception {
        Message answer;
        try {
            answer = (Message) DefaultMQProducer.class.getMethod("request", Message.class, long.class)
                .invoke(client, message(o, o.number("first", 0)), (long) o.number("patience", 10000));
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
        }
        CRC32 crc = new CRC32();
        crc.update(answer.getBody());
        reply.put("size", answer.getBody().length).put("crc", crc.getValue());
    }

    private void async(Form o, List<Message> messages) throws Exception {
        CountDownLatch done = new CountDownLatch(messages.size());
        List<Throwable> failures = new ArrayList<>();
        for (Message m : messages) {
            client.send(m, new SendCallback() {
                @Override
                public void onSuccess(SendResult r) {
                    sent(o, m.getKeys(), r);
                    done.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    synchronized (failures) {
                        failures.add(e);
                    }
                    done.countDown();
                }
            });
        }
        if (!done.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException(done.getCount() + " of " + messages.size() + " callbacks did not come");
        }
        synchronized (failures) {
            if (!failures.isEmpty()) {
                throw new IllegalStateException(failures.size() + " sends failed, the first: " + failures.get(0));
            }
        }
    }

    private static Message message(Form o, int i) throws Exception {
        String[] tags = o.get("tags").split(",");
        Message m = new Message(o.get("topic"), tags[i % tags.length], o.get("key") + "-" + i,
            Body.make(o.get("body"), o.number("seed", 0) + i, o.number("size", 32)));
        for (Map.Entry<String, String> p : Form.parse(o.get("props")).members().entrySet()) {
            m.putUserProperty(p.getKey(), p.getValue());
        }
        if (o.number("delay", 0) > 0) {
            m.setDelayTimeLevel(o.number("delay", 0));
        }
        if (!o.get("times").isEmpty()) {
            String[] times = o.get("times").split(",");
            String[] time = times[i % times.length].split(":");
            long n = Long.parseLong(time[1]);
            switch (time[0]) {
                case "sec":
                    timed(m, "setDelayTimeSec", "TIMER_DELAY_SEC", n);
                    break;
                case "ms":
                    timed(m, "setDelayTimeMs", "TIMER_DELAY_MS", n);
                    break;
                default:
                    timed(m, "setDeliverTimeMs", "TIMER_DELIVER_MS", System.currentTimeMillis() + n);
            }
        }
        return m;
    }

    /** Only client 5.x has calls for it; with others a program sets the property. */
    private static void timed(Message m, String call, String property, long value) throws Exception {
        try {
            Message.class.getMethod(call, long.class).invoke(m, value);
        } catch (NoSuchMethodException e) {
            m.putUserProperty(property, String.valueOf(value));
        }
    }

    /** Takes a timed message back; only client 5.x can. */
    String recall(Form o) throws Exception {
        return (String) DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class).invoke(client, o.get("topic"), o.get("handle"));
    }

    /** With which a message can be taken back: only client 5.x tells. */
    private static String handle(SendResult r) {
        try {
            Object handle = SendResult.class.getMethod("getRecallHandle").invoke(r);
            return handle == null ? "" : handle.toString();
        } catch (ReflectiveOperationException e) {
            return "";
        }
    }

    private static void sent(Form o, String key, SendResult r) {
        Form f = new Form().put("event", "sent").put("id", o.get("id")).put("key", key);
        if (r != null) {
            f.put("status", r.getSendStatus()).put("queue", r.getMessageQueue().getQueueId())
                .put("broker", r.getMessageQueue().getBrokerName()).put("offset", r.getQueueOffset())
                .put("msgId", r.getMsgId()).put("offsetMsgId", offsetMsgId(r)).put("handle", handle(r));
        }
        Agent.emit(f);
    }

    /** Clients before 3.5 have the broker's id only. */
    private static Object offsetMsgId(SendResult r) {
        try {
            return SendResult.class.getMethod("getOffsetMsgId").invoke(r);
        } catch (ReflectiveOperationException e) {
            return r.getMsgId();
        }
    }

    /** What an administrator's calls of the client find; the answers become members of the reply. */
    void query(Form o, Form reply) throws Exception {
        switch (o.get("what")) {
            case "id":
                described(view(o.get("topic"), o.get("msgId")), reply);
                return;
            case "key": {
                List<MessageExt> found = client.queryMessage(o.get("topic"), o.get("key"), 32, 0, System.currentTimeMillis() + 3600000).getMessageList();
                reply.put("count", found.size());
                described(found.get(0), reply);
                return;
            }
            case "queue": {
                MessageQueue q = new MessageQueue(o.get("topic"), o.get("broker"), o.number("queue", 0));
                reply.put("min", client.minOffset(q)).put("max", client.maxOffset(q)).put("earliest", client.earliestMsgStoreTime(q))
                    .put("search", client.searchOffset(q, Long.parseLong(o.get("time"))));
                return;
            }
            default:
                throw new IllegalArgumentException("unknown query " + o.get("what"));
        }
    }

    private static void described(MessageExt m, Form reply) {
        reply.put("key", m.getKeys()).put("queue", m.getQueueId()).put("offset", m.getQueueOffset()).put("stored", m.getStoreTimestamp());
    }

    /** The topic was added in 4.x and the form without it went in 5.x. */
    private MessageExt view(String topic, String id) throws Exception {
        try {
            return (MessageExt) DefaultMQProducer.class.getMethod("viewMessage", String.class, String.class).invoke(client, topic, id);
        } catch (NoSuchMethodException e) {
            return (MessageExt) DefaultMQProducer.class.getMethod("viewMessage", String.class).invoke(client, id);
        }
    }
}
