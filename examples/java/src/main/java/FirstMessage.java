import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends a message ("send", the default), or prints the first one it gets ("receive"). */
public class FirstMessage {
    private static final String NAME_SERVER = System.getenv().getOrDefault("NAMESRV_ADDR", "127.0.0.1:9876");
    private static final String TOPIC = "Greetings";

    public static void main(String[] args) throws Exception {
        if (args.length > 0 && args[0].equals("receive")) {
            receive();
        } else {
            send();
        }
    }

    private static void send() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("greeters");
        producer.setNamesrvAddr(NAME_SERVER);
        producer.start();
        try {
            Message message = new Message(TOPIC, "java", "Hello from Java".getBytes(StandardCharsets.UTF_8));
            System.out.println(producer.send(message));
        } finally {
            producer.shutdown();
        }
    }

    private static void receive() throws Exception {
        CountDownLatch received = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("greeted-by-java");
        consumer.setNamesrvAddr(NAME_SERVER);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                System.out.println("received: " + new String(m.getBody(), StandardCharsets.UTF_8));
            }
            received.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        received.await();
        consumer.shutdown();
    }
}
