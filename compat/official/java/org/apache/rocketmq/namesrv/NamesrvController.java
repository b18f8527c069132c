package org.apache.rocketmq.namesrv;

import gantry.official.Servers;
import gantry.official.Wire;
import java.util.Collections;
import java.util.Properties;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;

/** Stands before the class of this name on the class path: the name server is another process. */
public class NamesrvController {
    private final NamesrvConfig config;
    private final NettyServerConfig net;
    private String server;

    public NamesrvController(NamesrvConfig given, NettyServerConfig net) {
        this.net = net;
        config = new NamesrvConfig() {
            @Override public void setDeleteTopicWithBrokerRegistration(boolean v) {
                super.setDeleteTopicWithBrokerRegistration(v);
                tell("deleteTopicWithBrokerRegistration", v);
            }
        };
        config.setKvConfigPath(given.getKvConfigPath());
        config.setConfigStorePath(given.getConfigStorePath());
    }

    private void tell(String key, Object value) {
        Properties p = new Properties();
        p.setProperty(key, String.valueOf(value));
        String addr = "127.0.0.1:" + net.getListenPort();
        Wire.call(() -> {
            Wire.admin(addr).updateNameServerConfig(p, Collections.singletonList(addr));
            return null;
        });
    }

    public boolean initialize() {
        if (net.getListenPort() == 0) {
            net.setListenPort(Servers.freePort());
        }
        return true;
    }

    public void start() {
        Properties p = Servers.changed(config, new NamesrvConfig());
        p.setProperty("listenPort", "" + net.getListenPort());
        server = Servers.start("namesrv", p);
    }

    public void shutdown() {
        Servers.stop(server);
        server = null;
    }

    public NettyServerConfig getNettyServerConfig() {
        return net;
    }

    public NamesrvConfig getNamesrvConfig() {
        return config;
    }
}
