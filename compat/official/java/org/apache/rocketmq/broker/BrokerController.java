package org.apache.rocketmq.broker;

import gantry.official.LiveBrokerConfig;
import gantry.official.RemoteStore;
import gantry.official.Servers;
import gantry.official.Views;
import gantry.official.Wire;
import java.util.Properties;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.out.BrokerOuterAPI;
import org.apache.rocketmq.broker.pop.orderly.ConsumerOrderInfoManager;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.broker.topic.TopicQueueMappingCleanService;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Stands before the class of this name on the class path: the broker is another process. */
public class BrokerController {
    private final LiveBrokerConfig config = new LiveBrokerConfig();
    private final NettyServerConfig net;
    private final MessageStoreConfig store;
    private String server;

    public BrokerController(BrokerConfig given, NettyServerConfig net, NettyClientConfig client, MessageStoreConfig store) {
        MixAll.properties2Object(MixAll.object2Properties(given), config);
        this.net = net;
        this.store = store;
    }

    public boolean initialize() {
        if (net.getListenPort() == 0) {
            net.setListenPort(Servers.freePort());
        }
        if (store.getHaListenPort() == 0) {
            store.setHaListenPort(net.getListenPort() + 1);
        }
        return true;
    }

    public void start() {
        Properties p = Servers.changed(store, new MessageStoreConfig());
        p.putAll(Servers.changed(config, new BrokerConfig()));
        p.setProperty("listenPort", "" + net.getListenPort());
        p.setProperty("haListenPort", "" + store.getHaListenPort());
        server = Servers.start("broker", p);
        if (store.isEnableDLegerCommitLog()) {
            // the elected role, which a broker in this JVM writes back into what it was given
            store.setBrokerRole(BrokerRole.SYNC_MASTER);
        }
        config.live(this::tell);
    }

    private void tell(Properties changes) {
        Wire.call(() -> {
            admin().updateBrokerConfig(getBrokerAddr(), changes);
            return null;
        });
    }

    public void shutdown() {
        config.live(null);
        Servers.stop(server);
        server = null;
    }

    /** The one request after which a broker registers again at once is a change of its permission. */
    public void registerBrokerAll(boolean checkOrder, boolean oneway, boolean force) {
        Properties p = new Properties();
        p.setProperty("brokerPermission", "" + config.getBrokerPermission());
        tell(p);
    }

    public DefaultMQAdminExt admin() {
        return Wire.admin(config.getNamesrvAddr());
    }

    public MQClientAPIImpl api() {
        return admin().getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl();
    }

    public String getBrokerAddr() {
        return config.getBrokerIP1() + ":" + net.getListenPort();
    }

    public BrokerConfig getBrokerConfig() {
        return config;
    }

    public MessageStoreConfig getMessageStoreConfig() {
        return store;
    }

    public NettyServerConfig getNettyServerConfig() {
        return net;
    }

    public MessageStore getMessageStore() {
        return RemoteStore.of(this);
    }

    public BrokerOuterAPI getBrokerOuterAPI() {
        return Wire.hollow(Views.Outer.class);
    }

    public TopicConfigManager getTopicConfigManager() {
        return Views.Topics.of(this);
    }

    public SubscriptionGroupManager getSubscriptionGroupManager() {
        return Views.Groups.of(this);
    }

    public ConsumerOffsetManager getConsumerOffsetManager() {
        return Views.Offsets.of(this);
    }

    public TopicQueueMappingCleanService getTopicQueueMappingCleanService() {
        return Wire.hollow(Views.Cleaner.class);
    }

    public ConsumerOrderInfoManager getConsumerOrderInfoManager() {
        throw new Wire.InProcessOnly("BrokerController.getConsumerOrderInfoManager");
    }

    public ConsumerFilterManager getConsumerFilterManager() {
        throw new Wire.InProcessOnly("BrokerController.getConsumerFilterManager");
    }

    public void registerServerRPCHook(RPCHook hook) {
        throw new Wire.InProcessOnly("BrokerController.registerServerRPCHook");
    }
}
