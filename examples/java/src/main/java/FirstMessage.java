import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends a message ("send", the default), or prints the messages that it gets until two seconds pass without one ("receive"). */
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
        BlockingQueue<String> received = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("greeted-by-java");
        consumer.setNamesrvAddr(NAME_SERVER);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                received.add(new String(m.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (String body = received.take(); body != null; body = received.poll(2, TimeUnit.SECONDS)) {
            System.out.println("received: " + body);
        }
        consumer.shutdown();
    }
}
