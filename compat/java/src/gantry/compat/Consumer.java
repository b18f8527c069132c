package gantry.compat;

import java.lang.reflect.Method;
import java.util.List;

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
    private final int fail;
    private final Replier replier; // or null

    Consumer(Form o) throws Exception {
        name = o.get("name");
        work = o.number("work", 0);
        fail = o.number("fail", 0);
        replier = o.get("reply").equals("true") ? Replier.make(o) : null;
        client = o.get("trace").equals("true") ? traced(o.get("group")) : new DefaultMQPushConsumer(o.get("group"));
        if (o.number("most", 0) > 0) {
            most(o.number("most", 0));
        }
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
        if (o.get("sql").isEmpty()) {
            client.subscribe(o.get("topic"), o.get("sub"));
        } else {
            select(o.get("topic"), o.get("sql"));
        }
        if (o.get("orderly").equals("true")) {
            client.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                return consume(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            client.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                return consume(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
    }

    /** Clients before 4.4 know no trace, hence by reflection. */
    private static DefaultMQPushConsumer traced(String group) throws Exception {
        return DefaultMQPushConsumer.class.getConstructor(String.class, boolean.class, String.class).newInstance(group, true, null);
    }

    /** Clients before 3.4 leave the number of retries to the broker's settings of the group. */
    private void most(int times) throws Exception {
        for (Method m : DefaultMQPushConsumer.class.getMethods()) {
            if (m.getName().equals("setMaxReconsumeTimes")) {
                m.invoke(client, times);
            }
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

    /** Clients before 4.1 know no expressions but those of tags, hence by reflection. */
    private void select(String topic, String expression) throws Exception {
        Class<?> selector = Class.forName("org.apache.rocketmq.client.consumer.MessageSelector");
        Object sql = selector.getMethod("bySql", String.class).invoke(null, expression);
        DefaultMQPushConsumer.class.getMethod("subscribe", String.class, selector).invoke(client, topic, sql);
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
        if (replier != null) {
            replier.stop();
        }
    }

    /** False: the messages are to come again. */
    private boolean consume(List<MessageExt> messages) {
        boolean good = true;
        for (MessageExt m : messages) {
            good &= m.getReconsumeTimes() >= fail;
            Received.emit(name, m, work);
            if (replier != null) {
                replier.reply(m);
            }
        }
        return good;
    }
}
