package gantry.official;

import org.apache.rocketmq.test.base.BaseConf;
import org.apache.rocketmq.test.client.rmq.RMQNormalConsumer;
import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.listener.rmq.concurrent.RMQNormalListener;
import org.junit.Test;

/**
 * Runs first in each JVM. Classes that are loaded while a consumer looks for its offsets make the time long in which a
 * message can slip through between its two questions (see the documentation of the Go package).
 */
public class WarmUp extends BaseConf {
    @Test
    public void sendAndReceive() {
        for (int i = 0; i < 3; i++) {
            String topic = initTopic();
            RMQNormalProducer producer = getProducer(NAMESRV_ADDR, topic);
            RMQNormalConsumer consumer = getConsumer(NAMESRV_ADDR, topic, "*", new RMQNormalListener());
            producer.send(20);
            consumer.getListener().waitForMessageConsume(producer.getAllMsgBody(), 3000);
            shutdown();
        }
    }
}
