package gantry.official;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.out.BrokerOuterAPI;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.broker.topic.TopicQueueMappingCleanService;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.OffsetWrapper;
import org.apache.rocketmq.remoting.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** Stand-ins for those managers of a broker that tests reach into. All are made with {@link Wire#hollow}. */
public final class Views {
    private Views() { }

    public static class Outer extends BrokerOuterAPI {
        public Outer() {
            super(null, null);
        }

        @Override public void refreshMetadata() {
        }
    }

    public static class Topics extends TopicConfigManager {
        private BrokerController owner;

        public static Topics of(BrokerController owner) {
            Topics t = Wire.hollow(Topics.class);
            t.owner = owner;
            return t;
        }

        @Override public ConcurrentMap<String, TopicConfig> getTopicConfigTable() {
            return Wire.call(() -> new ConcurrentHashMap<>(
                owner.admin().getAllTopicConfig(owner.getBrokerAddr(), 10_000).getTopicConfigTable()));
        }

        @Override public TopicConfig selectTopicConfig(String topic) {
            return getTopicConfigTable().get(topic);
        }

        @Override public void updateTopicConfig(TopicConfig c) {
            Wire.call(() -> {
                owner.admin().createAndUpdateTopicConfig(owner.getBrokerAddr(), c);
                return null;
            });
        }
    }

    public static class Groups extends SubscriptionGroupManager {
        private BrokerController owner;

        public static Groups of(BrokerController owner) {
            Groups g = Wire.hollow(Groups.class);
            g.owner = owner;
            return g;
        }

        /** Makes the group when there is none, as the manager itself does. */
        @Override public SubscriptionGroupConfig findSubscriptionGroupConfig(String group) {
            SubscriptionGroupConfig c = Wire.call(() -> owner.admin().examineSubscriptionGroupConfig(owner.getBrokerAddr(), group));
            if (c == null) {
                c = new SubscriptionGroupConfig();
                c.setGroupName(group);
                updateSubscriptionGroupConfig(c);
            }
            return c;
        }

        @Override public void updateSubscriptionGroupConfig(SubscriptionGroupConfig c) {
            Wire.call(() -> {
                owner.admin().createAndUpdateSubscriptionGroupConfig(owner.getBrokerAddr(), c);
                return null;
            });
        }
    }

    public static class Offsets extends ConsumerOffsetManager {
        private BrokerController owner;

        public static Offsets of(BrokerController owner) {
            Offsets o = Wire.hollow(Offsets.class);
            o.owner = owner;
            return o;
        }

        @Override public long queryOffset(String group, String topic, int queue) {
            QueryConsumerOffsetRequestHeader h = new QueryConsumerOffsetRequestHeader();
            h.setConsumerGroup(group);
            h.setTopic(topic);
            h.setQueueId(queue);
            h.setSetZeroIfNotFound(false);
            return Wire.call(() -> {
                try {
                    return owner.api().queryConsumerOffset(owner.getBrokerAddr(), h, 5000);
                } catch (MQBrokerException notFound) {
                    return -1L;
                }
            });
        }

        @Override public long queryPullOffset(String group, String topic, int queue) {
            OffsetWrapper w = Wire.call(() -> owner.api().getConsumeStats(owner.getBrokerAddr(), group, topic, 5000)
                .getOffsetTable().get(new MessageQueue(topic, owner.getBrokerConfig().getBrokerName(), queue)));
            return w == null ? -1 : w.getPullOffset();
        }
    }

    public static class Cleaner extends TopicQueueMappingCleanService {
        public Cleaner() {
            super(null);
        }

        @Override public void wakeup() {
            // no request makes a broker clean up at once
        }
    }
}
