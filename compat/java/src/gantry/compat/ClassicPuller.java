package gantry.compat;

import java.util.HashMap;
import java.util.Map;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** DefaultMQPullConsumer: the program names queue and offset. It reads every queue once from its start and goes on from there. */
@SuppressWarnings("deprecation")
final class ClassicPuller extends Puller {
    private final DefaultMQPullConsumer client;
    private final Map<MessageQueue, Long> next = new HashMap<>();
    private final String sub;

    ClassicPuller(Form o) throws Exception {
        super(o);
        client = new DefaultMQPullConsumer(o.get("group"));
        client.setNamesrvAddr(o.get("ns"));
        client.setInstanceName(name);
        client.start();
        sub = o.get("sub");
        for (MessageQueue q : client.fetchSubscribeMessageQueues(o.get("topic"))) {
            next.put(q, client.minOffset(q));
        }
    }

    @Override
    void pull() throws Exception {
        boolean found = false;
        for (Map.Entry<MessageQueue, Long> e : next.entrySet()) {
            PullResult r = client.pull(e.getKey(), sub, e.getValue(), 32);
            if (r.getPullStatus() == PullStatus.FOUND) {
                found = true;
                for (MessageExt m : r.getMsgFoundList()) {
                    Received.emit(name, m, 0);
                }
            }
            e.setValue(r.getNextBeginOffset());
            client.updateConsumeOffset(e.getKey(), r.getNextBeginOffset());
        }
        if (!found) {
            Thread.sleep(50);
        }
    }

    @Override
    void close() {
        client.shutdown();
    }
}
