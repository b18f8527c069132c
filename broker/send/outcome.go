package send

import (
	"fmt"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
)

// outcome is the answer to what became of a draft (Java:
// SendMessageProcessor.handlePutMessageResult).
func (p *Processor) outcome(d *store.Draft) (code.Response, string) {
	switch d.Status {
	case store.OK:
		return code.Success, ""
	case store.FlushTimeout:
		return code.FlushDiskTimeout, ""
	case store.IllegalSize:
		r := illegal(p.cfg.Load())
		return r.code, r.remark
	case store.Deleted:
		return code.TopicNotExist, d.Err.Error()
	case store.CreateFailed:
		return code.SystemError, "create mapped file failed, server is busy or broken."
	case store.NotWriteable:
		// The words that Java's users search for, then the cause.
		return code.ServiceNotAvailable, fmt.Sprintf("service not available now. %v", d.Err)
	default:
		return code.SystemError, fmt.Sprintf("append failed: %v", d.Err)
	}
}

// WriteOfTheLog is what a send waits for, in the log lines about slow things.
const WriteOfTheLog = "the write of the message log"

// busy answers with code 2 what was not stored because the log is behind, and
// says whether that was so. Java's thread pools answer without region and trace
// switch, its processor with them.
func (o *op) busy(d *store.Draft) bool {
	var cause remoting.Cause
	switch d.Status {
	case store.Overload:
		cause = remoting.Overload
	case store.Cleared:
		cause = remoting.PCBusyCleanQueue
	case store.Expired:
		cause = remoting.TimeoutCleanQueue
	case store.Busy:
		cause = remoting.PCSynchronized
	default:
		return false
	}
	took, _ := o.p.Store.Log().Stalled()
	slow := remoting.Slow{What: WriteOfTheLog, Took: took, Waited: d.Waited, Left: d.Left}
	if cause == remoting.PCSynchronized {
		o.fail(code.SystemBusy, o.req.CountBusy(cause, slow))
		return true
	}
	o.req.Busy(cause, slow)
	o.free()
	return true
}

// count adds a stored draft to the statistics.
func (p *Processor) count(o *op, d *store.Draft) {
	p.Stats.Rates.Put.Add(d.QueueDelta)
	put.Count(p.Stats, o.topic.Stats, o.topic.System(), o.queueID, d)
}
