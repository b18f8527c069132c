package gantry.compat;

import org.apache.rocketmq.common.message.MessageExt;

/** Answers the messages that a consumer gets; clients can from 4.6 on. */
interface Replier {
    static Replier make(Form o) throws Exception {
        return (Replier) Class.forName("gantry.compat.MessageReplier").getDeclaredConstructor(Form.class).newInstance(o);
    }

    void reply(MessageExt m);

    void stop();
}
