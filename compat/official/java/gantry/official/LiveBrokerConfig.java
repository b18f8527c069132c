package gantry.official;

import java.util.Properties;
import java.util.function.Consumer;
import org.apache.rocketmq.common.BrokerConfig;

/** A configuration whose setters, once its broker runs, tell it too (request 25): those that tests call. */
public class LiveBrokerConfig extends BrokerConfig {
    private transient Consumer<Properties> broker;

    /** From now on changes go to the broker, or with null to nobody. */
    public void live(Consumer<Properties> broker) {
        this.broker = broker;
    }

    private void tell(String key, Object value) {
        if (broker != null) {
            Properties p = new Properties();
            p.setProperty(key, String.valueOf(value));
            broker.accept(p);
        }
    }

    @Override public void setEnableSingleTopicRegister(boolean v) {
        super.setEnableSingleTopicRegister(v);
        tell("enableSingleTopicRegister", v);
    }

    @Override public void setEnableSplitRegistration(boolean v) {
        super.setEnableSplitRegistration(v);
        tell("enableSplitRegistration", v);
    }

    @Override public void setEnablePopBufferMerge(boolean v) {
        super.setEnablePopBufferMerge(v);
        tell("enablePopBufferMerge", v);
    }

    @Override public void setTransactionCheckInterval(long v) {
        super.setTransactionCheckInterval(v);
        tell("transactionCheckInterval", v);
    }

    @Override public void setUseServerSideResetOffset(boolean v) {
        super.setUseServerSideResetOffset(v);
        tell("useServerSideResetOffset", v);
    }

    @Override public void setEnableNotifyAfterPopOrderLockRelease(boolean v) {
        super.setEnableNotifyAfterPopOrderLockRelease(v);
        tell("enableNotifyAfterPopOrderLockRelease", v);
    }

    @Override public void setLongPollingEnable(boolean v) {
        super.setLongPollingEnable(v);
        tell("longPollingEnable", v);
    }

    @Override public void setShortPollingTimeMills(long v) {
        super.setShortPollingTimeMills(v);
        tell("shortPollingTimeMills", v);
    }

    @Override public void setEstimateAccumulation(boolean v) {
        super.setEstimateAccumulation(v);
        tell("estimateAccumulation", v);
    }

    @Override public void setPopConsumerKVServiceEnable(boolean v) {
        super.setPopConsumerKVServiceEnable(v);
        tell("popConsumerKVServiceEnable", v);
    }

    @Override public void setPopFromRetryProbabilityForPriority(int v) {
        super.setPopFromRetryProbabilityForPriority(v);
        tell("popFromRetryProbabilityForPriority", v);
    }

    @Override public void setPriorityOrderAsc(boolean v) {
        super.setPriorityOrderAsc(v);
        tell("priorityOrderAsc", v);
    }

    @Override public void setUseSeparateRetryQueue(boolean v) {
        super.setUseSeparateRetryQueue(v);
        tell("useSeparateRetryQueue", v);
    }
}
