package gantry.compat;

import java.lang.reflect.Method;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

final class Consumer {
    private final DefaultMQPushConsumer client;
    private final String name;
    private final int work;

    Consumer(Form o) throws Exception {
        name = o.get("name");
        work = o.number("work", 0);
        client = new DefaultMQPushConsumer(o.get("group"));
        client.setNamesrvAddr(o.get("ns"));
        client.setInstanceName(name);
        // When two threads of a starting client want to send its heartbeat, one gives up, and if that was the one with the newest
        // subscription, pulls are refused until the next heartbeat. Thirty seconds of that is too long to wait for.
        client.setHeartbeatBrokerInterval(3000);
        if (o.get("heartbeat").equals("short")) {
            call("setUseHeartbeatV2", true);
        }
        client.setConsumeThreadMin(4);
        client.setConsumeThreadMax(4);
        client.setConsumeFromWhere(o.get("from").equals("last") ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET : ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (o.get("model").equals("broadcast")) {
            broadcast();
        }
        client.subscribe(o.get("topic"), o.get("sub"));
        if (o.get("orderly").equals("true")) {
            client.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                consume(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            client.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                consume(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
    }

    /** MessageModel changed its package between 4.x and 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private void broadcast() throws Exception {
        for (Method m : DefaultMQPushConsumer.class.getMethods()) {
            if (m.getName().equals("setMessageModel")) {
                m.invoke(client, Enum.valueOf((Class<Enum>) m.getParameterTypes()[0], "BROADCASTING"));
                return;
            }
        }
        throw new UnsupportedOperationException("this client has no setMessageModel");
    }

    /** Calls a setter that only newer clients have. */
    private void call(String setter, Object value) throws Exception {
        for (Method m : DefaultMQPushConsumer.class.getMethods()) {
            if (m.getName().equals(setter)) {
                m.invoke(client, value);
                return;
            }
        }
        throw new UnsupportedOperationException("this client has no " + setter);
    }

    void start() throws Exception {
        client.start();
    }

    void stop() {
        client.shutdown();
    }

    private void consume(List<MessageExt> messages) {
        for (MessageExt m : messages) {
            long begin = micros();
            if (work > 0) {
                try {
                    Thread.sleep(work);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            CRC32 crc = new CRC32();
            crc.update(m.getBody());
            Form props = new Form();
            for (Map.Entry<String, String> p : m.getProperties().entrySet()) {
                props.put(p.getKey(), p.getValue());
            }
            Agent.emit(new Form().put("event", "message").put("consumer", name).put("topic", m.getTopic())
                .put("queue", m.getQueueId()).put("offset", m.getQueueOffset()).put("key", m.getKeys())
                .put("tag", m.getTags()).put("size", m.getBody().length).put("crc", crc.getValue())
                .put("stored", m.getStoreSize()).put("sysFlag", m.getSysFlag()).put("times", m.getReconsumeTimes())
                .put("msgId", m.getMsgId()).put("begin", begin).put("end", micros()).put("props", props));
        }
    }

    private static long micros() {
        Instant t = Instant.now();
        return t.getEpochSecond() * 1000000 + t.getNano() / 1000;
    }
}
