package timer

import (
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/remoting"
)

// AnswerCheckpoint answers request 60: how far the timer is, in the 56 bytes of the
// file timercheck. Slaves ask for it. Without timers s is nil, and the answer says
// so (apache/rocketmq#6722).
func (s *Service) AnswerCheckpoint(r *remoting.Request) {
	if s == nil {
		r.Fail(code.SystemError, "The checkpoint is null")
		return
	}
	r.Reply(nil, s.Checkpoint())
}

// AnswerMetrics answers request 61: how many messages of each topic wait.
func (s *Service) AnswerMetrics(r *remoting.Request) {
	if s == nil {
		r.Fail(code.SystemError, "The timer message store is null")
		return
	}
	r.ReplyJSON(nil, s.Metrics())
}
