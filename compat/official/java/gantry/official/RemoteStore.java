package gantry.official;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** The few questions that tests have for a broker's store, asked over the wire. Made with {@link Wire#hollow}. */
public class RemoteStore extends DefaultMessageStore {
    private BrokerController owner;

    /** Never called; the compiler wants one. */
    private RemoteStore() throws Exception {
        super((MessageStoreConfig) null, (BrokerStatsManager) null, null, (BrokerConfig) null, new ConcurrentHashMap<>());
    }

    public static RemoteStore of(BrokerController owner) {
        RemoteStore s = Wire.hollow(RemoteStore.class);
        s.owner = owner;
        return s;
    }

    private MessageQueue queue(String topic, int id) {
        return new MessageQueue(topic, owner.getBrokerConfig().getBrokerName(), id);
    }

    @Override public long dispatchBehindBytes() {
        return Wire.call(() -> Long.parseLong(owner.admin().fetchBrokerRuntimeStats(owner.getBrokerAddr())
            .getTable().get("dispatchBehindBytes")));
    }

    @Override public long getMaxOffsetInQueue(String topic, int queue) {
        return Wire.call(() -> owner.api().getMaxOffset(owner.getBrokerAddr(), queue(topic, queue), 5000));
    }

    @Override public long getMinOffsetInQueue(String topic, int queue) {
        return Wire.call(() -> owner.api().getMinOffset(owner.getBrokerAddr(), queue(topic, queue), 5000));
    }

    @Override public int cleanUnusedTopic(Set<String> retain) {
        return Wire.call(() -> owner.admin().cleanUnusedTopicByAddr(owner.getBrokerAddr()) ? 1 : 0);
    }

    @Override public long estimateMessageCount(String topic, int queue, long from, long to, MessageFilter filter) {
        throw new Wire.InProcessOnly("MessageStore.estimateMessageCount");
    }

    @Override public void destroy() {
        // the files are the other process's
    }

    @Override public void shutdown() {
    }
}
