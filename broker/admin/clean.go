package admin

import (
	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/remoting"
)

// DeleteExpired answers request 329: expired files of the commit log are deleted
// in the coming rounds, whatever the hour.
func (h *Handlers) DeleteExpired(r *remoting.Request) {
	h.o.Log.Info("an administrator has expired files deleted", zap.Stringer("client", r.Conn.Remote()))
	h.o.DeleteExpired()
	r.Reply(nil, nil)
}

// CleanQueues answers request 306: queues of which every message has left the
// commit log are removed, but for those of system topics. As in the original
// they begin at 0 again.
func (h *Handlers) CleanQueues(r *remoting.Request) {
	n, err := h.o.RestartExpired(h.o.Topics.IsSystem)
	h.o.Log.Info("an administrator has expired queues removed", zap.Stringer("client", r.Conn.Remote()), zap.Int("queues", n), zap.Error(err))
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	r.Reply(nil, nil)
}
