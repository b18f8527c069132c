package send

import (
	"fmt"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/codec/code"
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
	case store.CreateFailed:
		return code.SystemError, "create mapped file failed, server is busy or broken."
	case store.Busy:
		return code.SystemBusy, "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
	case store.NotWriteable:
		// The words that Java's users search for, then the cause.
		return code.ServiceNotAvailable, fmt.Sprintf("service not available now. %v", d.Err)
	default:
		return code.SystemError, fmt.Sprintf("append failed: %v", d.Err)
	}
}

// count adds a stored draft to the statistics.
func (p *Processor) count(o *op, d *store.Draft) {
	p.Stats.Rates.Put.Add(int64(d.Count))
	put.Count(p.Stats, o.topic.Stats, o.topic.System(), o.queueID, d)
}
