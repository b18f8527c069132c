package remoting

// RoundTask is work that handlers of one round share, such as one append for all messages that a read brought.
type RoundTask interface {
	// EndRound is called once at the end of every round in which the task was deferred, before the answers are written.
	EndRound()
}

// Round is one turn of a loop, a reader or a lane worker: all whole frames of one read, or one request of a lane.
// Answers given inside it are collected in order and written together after it.
// It belongs to one goroutine at a time.
type Round struct {
	srv   *Server
	shard *shard
	tasks []roundTask
	live  int
}

type roundTask struct {
	key  any
	task RoundTask
	live bool
}

// NewRound returns a Round for a transport or worker, which should keep it for many reads: the tasks live in it.
func (s *Server) NewRound() *Round {
	return &Round{srv: s, shard: s.stats.next()}
}

// BorrowRound is NewRound for goroutines that are too many to keep one each. It is given back with ReturnRound.
func (s *Server) BorrowRound() *Round {
	if r, ok := s.rounds.Get().(*Round); ok {
		return r
	}
	return s.NewRound()
}

// ReturnRound gives back a round after Feed.
func (s *Server) ReturnRound(r *Round) { s.rounds.Put(r) }

// Defer returns the round's task for key. The first call ever makes it with start; from then on it lives as long as
// the loop, and Defer only notes that it has to run at the end of this round. So a task has to be empty again when
// EndRound returns, and key should be something that lives as long as the server (a pointer).
func (r *Round) Defer(key any, start func() RoundTask) RoundTask {
	for i := range r.tasks {
		if t := &r.tasks[i]; t.key == key {
			if !t.live {
				t.live = true
				r.live++
			}
			return t.task
		}
	}
	t := start()
	r.tasks = append(r.tasks, roundTask{key, t, true})
	r.live++
	return t
}

// end runs the deferred tasks. A task may defer others (or itself again).
func (r *Round) end() {
	for r.live > 0 {
		for i := range r.tasks {
			if r.tasks[i].live {
				r.tasks[i].live = false
				r.live--
				r.run(r.tasks[i].task)
			}
		}
	}
}

func (r *Round) run(t RoundTask) {
	defer func() {
		if p := recover(); p != nil {
			r.srv.Failed("a round task (its requests stay without an answer)", p)
		}
	}()
	t.EndRound()
}
