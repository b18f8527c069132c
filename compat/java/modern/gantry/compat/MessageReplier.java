package gantry.compat;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends each body back with all its bits turned over. */
final class MessageReplier implements Replier {
    private final String consumer;
    private final int pause;
    private final DefaultMQProducer client;

    MessageReplier(Form o) throws Exception {
        consumer = o.get("name");
        pause = o.number("pause", 0);
        client = new DefaultMQProducer(o.get("group") + "-replies");
        client.setNamesrvAddr(o.get("ns"));
        client.setInstanceName(o.get("name") + "-replies");
        client.setSendMsgTimeout(20000);
        client.start();
    }

    @Override
    public void reply(MessageExt m) {
        byte[] body = m.getBody().clone();
        for (int i = 0; i < body.length; i++) {
            body[i] ^= 0xFF;
        }
        String status;
        try {
            Thread.sleep(pause);
            status = String.valueOf(client.send(MessageUtil.createReplyMessage(m, body)).getSendStatus());
        } catch (Exception e) {
            status = e + "; " + e.getCause();
        }
        Agent.emit(new Form().put("event", "replied").put("consumer", consumer).put("key", m.getKeys()).put("status", status));
    }

    @Override
    public void stop() {
        client.shutdown();
    }
}
