import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * The Java side of the store's exchange test: a name server, a broker and
 * clients in one process.
 *
 *   write  starts on a store, sends messages of all kinds, says READY, waits
 *          for a line on standard input, stops cleanly, says DONE
 *   batches  as write, but sends to a topic with queues of batches
 *   serve  starts on a store, pulls all messages of the topics that come on
 *          standard input, one line each, and looks for the keys that come as
 *          "key TOPIC KEY"; with a third word only where its queues begin and
 *          end; "expire" makes all files old and lets the broker
 *          delete what it deletes then; an empty line ends it
 */
public class Exchange {
    static int nsPort, port;
    static String store;

    public static void main(String[] args) throws Exception {
        String mode = args[0];
        store = args[1];
        port = Integer.parseInt(args[2]);
        nsPort = Integer.parseInt(args[3]);
        NamesrvController ns = namesrv();
        BrokerController broker = broker();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (mode.equals("write")) {
            write();
            System.out.println("READY");
            in.readLine();
        } else if (mode.equals("batches")) {
            batches(broker);
            System.out.println("READY");
            in.readLine();
        } else {
            System.out.println("READY");
            serve(in, broker);
        }
        broker.shutdown();
        ns.shutdown();
        System.out.println("DONE");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static NamesrvController namesrv() throws Exception {
        NamesrvConfig config = new NamesrvConfig();
        config.setKvConfigPath(store + "-namesrv/kvConfig.json");
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(nsPort);
        NamesrvController ns = new NamesrvController(config, server);
        if (!ns.initialize()) {
            throw new IllegalStateException("name server");
        }
        ns.start();
        return ns;
    }

    static BrokerController broker() throws Exception {
        BrokerConfig config = new BrokerConfig();
        config.setNamesrvAddr("127.0.0.1:" + nsPort);
        config.setBrokerIP1("127.0.0.1");
        config.setBrokerName("broker-a");
        config.setBrokerClusterName("DefaultCluster");
        config.setDefaultTopicQueueNums(4);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(port);
        MessageStoreConfig disk = new MessageStoreConfig();
        disk.setStorePathRootDir(store);
        disk.setStorePathCommitLog(store + "/commitlog");
        disk.setMappedFileSizeCommitLog(256 * 1024);
        disk.setMappedFileSizeConsumeQueue(100 * 20);
        disk.setMapperFileSizeBatchConsumeQueue(40 * 46);
        disk.setMaxHashSlotNum(1000);
        disk.setMaxIndexNum(1500);
        disk.setTimerWheelEnable(false);
        disk.setHaListenPort(port + 1);
        disk.setFlushConsumeQueueThoroughInterval(1000);
        BrokerController broker = new BrokerController(config, server, new NettyClientConfig(), disk);
        if (!broker.initialize()) {
            System.out.println("REFUSED");
            System.out.flush();
            Runtime.getRuntime().halt(3);
        }
        broker.start();
        broker.registerBrokerAll(true, false, true);
        return broker;
    }

    static Message message(int n) {
        StringBuilder body = new StringBuilder("J-" + n + "-");
        for (int i = 0; i < n * 37 % 900; i++) {
            body.append((char) ('a' + i % 26));
        }
        return new Message("Exchange", n % 5 == 0 ? null : "Tag" + n % 3, n % 4 == 0 ? null : "k" + n + " all", body.toString().getBytes(StandardCharsets.UTF_8));
    }

    static void write() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("exchange-producer");
        producer.setNamesrvAddr("127.0.0.1:" + nsPort);
        producer.start();
        for (int i = 0; ; i++) { // the first send creates the topic
            try {
                producer.send(message(0));
                break;
            } catch (Exception e) {
                if (i == 40) {
                    throw e;
                }
                Thread.sleep(500);
            }
        }
        List<MessageQueue> queues = producer.fetchPublishMessageQueues("Exchange");
        for (int n = 1; n < 800; n++) {
            producer.send(message(n), queues.get(n % queues.size()));
        }
        for (int b = 0; b < 40; b++) {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < 7; i++) {
                Message m = message(1000 + b * 7 + i);
                m.putUserProperty("BATCH", "b" + b);
                batch.add(m);
            }
            producer.send(batch, queues.get(b % queues.size()));
        }
        Message late = message(2000);
        late.setDelayTimeLevel(18);
        producer.send(late);
        Message wide = new Message("Exchange", "\u6807\u7b7e", "\u952e\ud83d\ude00 k2001", "J-2001-\u6587".getBytes(StandardCharsets.UTF_8));
        producer.send(wide);
        producer.shutdown();

        TransactionMQProducer tx = new TransactionMQProducer("exchange-tx");
        tx.setNamesrvAddr("127.0.0.1:" + nsPort);
        tx.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                return (LocalTransactionState) arg;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                return LocalTransactionState.UNKNOW;
            }
        });
        tx.start();
        tx.sendMessageInTransaction(message(3000), LocalTransactionState.COMMIT_MESSAGE);
        tx.sendMessageInTransaction(message(3001), LocalTransactionState.ROLLBACK_MESSAGE);
        tx.sendMessageInTransaction(message(3002), LocalTransactionState.UNKNOW);
        Thread.sleep(4000); // the marks of what is done are written every 3 s
        tx.shutdown();
    }

    static void batches(BrokerController broker) throws Exception {
        TopicConfig topic = new TopicConfig("Batches", 2, 2);
        topic.getAttributes().put("+queue.type", "BatchCQ");
        broker.getTopicConfigManager().updateTopicConfig(topic);
        broker.registerBrokerAll(true, false, true);
        DefaultMQProducer producer = new DefaultMQProducer("exchange-producer");
        producer.setNamesrvAddr("127.0.0.1:" + nsPort);
        producer.start();
        List<MessageQueue> queues = null;
        for (int i = 0; queues == null; i++) { // the route needs a moment
            try {
                queues = producer.fetchPublishMessageQueues("Batches");
            } catch (Exception e) {
                if (i == 40) {
                    throw e;
                }
                Thread.sleep(500);
            }
        }
        for (int b = 0, n = 0; b < 250; b++) {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i <= b % 13; i++, n++) {
                Message m = message(n);
                m.setTopic("Batches");
                batch.add(m);
            }
            if (b % 13 == 0) {
                producer.send(batch.get(0), queues.get(b % 2));
            } else {
                producer.send(batch, queues.get(b % 2));
            }
        }
        producer.shutdown();
    }

    /** The clean-up rounds that the broker makes by itself after a minute. */
    static void expire(BrokerController broker) throws Exception {
        long old = System.currentTimeMillis() - 100 * 3600 * 1000L;
        for (File f : new File(store + "/commitlog").listFiles()) {
            if (!f.setLastModified(old)) {
                throw new IllegalStateException(f.toString());
            }
        }
        DefaultMessageStore ms = (DefaultMessageStore) broker.getMessageStore();
        ms.executeDeleteFilesManually();
        call(ms, "cleanFilesPeriodically");
        call(ms.getQueueStore(), "cleanQueueFilesPeriodically");
        System.out.println("log " + ms.getMinPhyOffset() + " " + ms.getMaxPhyOffset());
    }

    static void call(Object o, String method) throws Exception {
        Method m = o.getClass().getDeclaredMethod(method);
        m.setAccessible(true);
        m.invoke(o);
    }

    static void serve(BufferedReader in, BrokerController broker) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("exchange-consumer");
        consumer.setNamesrvAddr("127.0.0.1:" + nsPort);
        consumer.start();
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr("127.0.0.1:" + nsPort);
        admin.start();
        for (String line; (line = in.readLine()) != null && !line.isEmpty(); ) {
            String[] words = line.split(" ");
            if (words[0].equals("expire")) {
                expire(broker);
                System.out.println("end");
                continue;
            }
            if (words[0].equals("key")) {
                int found = 0;
                try {
                    for (MessageExt m : admin.queryMessage(words[1], words[2], 64, 0, Long.MAX_VALUE).getMessageList()) {
                        System.out.println("found " + words[2] + " " + m.getQueueId() + " " + m.getQueueOffset());
                        found++;
                    }
                } catch (Exception e) {
                    System.out.println("nothing " + words[2] + " " + e.getMessage().replace('\n', ' '));
                }
                System.out.println("end");
                continue;
            }
            String topic = words[0];
            for (int id = 0; id < Integer.parseInt(words[1]); id++) {
                pull(consumer, new MessageQueue(topic, "broker-a", id), words.length > 2);
            }
            System.out.println("end");
        }
        consumer.shutdown();
        admin.shutdown();
    }

    static void pull(DefaultMQPullConsumer consumer, MessageQueue mq, boolean endsOnly) throws Exception {
        long at = 0, max = 0;
        for (int i = 0; ; i++) { // the route needs a moment
            try {
                at = consumer.minOffset(mq);
                max = consumer.maxOffset(mq);
                break;
            } catch (Exception e) {
                if (i == 40) {
                    throw e;
                }
                Thread.sleep(500);
            }
        }
        if (endsOnly) {
            System.out.println("ends " + mq.getQueueId() + " " + at + " " + max);
            return;
        }
        while (at < max) {
            PullResult r = consumer.pull(mq, "*", at, 32, 5000);
            if (r.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt m : r.getMsgFoundList()) {
                    String body = new String(m.getBody(), StandardCharsets.UTF_8);
                    String start = body.indexOf('-', 2) > 0 ? body.substring(0, body.indexOf('-', 2)) : body;
                    System.out.println("msg " + mq.getQueueId() + " " + m.getQueueOffset() + " " + body.getBytes(StandardCharsets.UTF_8).length + " " + start);
                }
            } else if (r.getNextBeginOffset() <= at) {
                throw new IllegalStateException(r.toString());
            }
            at = r.getNextBeginOffset();
        }
    }
}
