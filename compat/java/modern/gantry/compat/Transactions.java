package gantry.compat;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A producer of transactions. What becomes of each the message says itself: property local at first, property check when asked. */
final class Transactions implements TransactionListener {
    private final String producer;

    private Transactions(String producer) {
        this.producer = producer;
    }

    static DefaultMQProducer producer(Form o) {
        TransactionMQProducer client = new TransactionMQProducer(o.get("group"));
        client.setTransactionListener(new Transactions(o.get("name")));
        // Who has not sent yet is made known to the broker by a heartbeat.
        client.setHeartbeatBrokerInterval(1000);
        return client;
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
        return state(m.getUserProperty("local"));
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt m) {
        Agent.emit(new Form().put("event", "checked").put("producer", producer).put("key", m.getKeys()));
        return state(m.getUserProperty("check"));
    }

    private static LocalTransactionState state(String word) {
        switch (word) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }
}
