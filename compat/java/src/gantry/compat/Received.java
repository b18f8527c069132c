package gantry.compat;

import java.time.Instant;
import java.util.Map;
import java.util.zip.CRC32;

import org.apache.rocketmq.common.message.MessageExt;

/** The event of a message that a consumer of any kind was given. */
final class Received {
    private Received() {
    }

    /** work: milliseconds spent on the message. */
    static void emit(String consumer, MessageExt m, int work) {
        long begin = micros();
        if (work > 0) {
            try {
                Thread.sleep(work);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        CRC32 crc = new CRC32();
        crc.update(m.getBody());
        Form props = new Form();
        for (Map.Entry<String, String> p : m.getProperties().entrySet()) {
            props.put(p.getKey(), p.getValue());
        }
        Agent.emit(new Form().put("event", "message").put("consumer", consumer).put("topic", m.getTopic())
            .put("queue", m.getQueueId()).put("offset", m.getQueueOffset()).put("key", m.getKeys())
            .put("tag", m.getTags()).put("size", m.getBody().length).put("crc", crc.getValue())
            .put("stored", m.getStoreSize()).put("sysFlag", m.getSysFlag()).put("times", m.getReconsumeTimes())
            .put("msgId", m.getMsgId()).put("begin", begin).put("end", micros()).put("props", props));
    }

    private static long micros() {
        Instant t = Instant.now();
        return t.getEpochSecond() * 1000000 + t.getNano() / 1000;
    }
}
