package gantry.compat;

import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** DefaultLitePullConsumer: the client shares the queues out, fetches ahead, and commits what was polled. */
final class LitePuller extends Puller {
    private final DefaultLitePullConsumer client;

    LitePuller(Form o) throws Exception {
        super(o);
        client = new DefaultLitePullConsumer(o.get("group"));
        client.setNamesrvAddr(o.get("ns"));
        client.setInstanceName(name);
        client.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        client.subscribe(o.get("topic"), o.get("sub"));
        client.start();
    }

    @Override
    void pull() {
        for (MessageExt m : client.poll(500)) {
            Received.emit(name, m, 0);
        }
    }

    @Override
    void close() throws Exception {
        client.getClass().getMethod("commitSync").invoke(client); // "commit" from 5.1 on, the old name stays
        client.shutdown();
    }
}
