package remoting

import (
	"runtime"
	"sync/atomic"

	"github.com/gantrymq/gantry/codec/code"
)

// shard holds counters that loops write, so that they do not share cache lines. A loop or reader has one; many
// readers may share it.
type shard struct {
	requests []atomic.Uint64 // by route, the last one for unknown codes
	_        [64]byte
}

type stats struct {
	shards    []*shard
	at        atomic.Uint32
	opened    atomic.Uint64
	refused   atomic.Uint64
	idle      atomic.Uint64
	malformed atomic.Uint64
	overflows atomic.Uint64
	busy      [causes]busyCause
	panics    atomic.Uint64
}

func (s *stats) init(routes int) {
	s.shards = make([]*shard, runtime.GOMAXPROCS(0))
	for i := range s.shards {
		s.shards[i] = &shard{requests: make([]atomic.Uint64, routes+1)}
	}
}

func (s *stats) next() *shard {
	return s.shards[int(s.at.Add(1))%len(s.shards)]
}

// Stats are the counters of a server since its start.
type Stats struct {
	Connections int                     // open now
	Opened      uint64                  // connections opened ever
	Refused     uint64                  // connections turned away: above MaxConns, or TLS without a certificate
	Idle        uint64                  // connections closed because nothing moved
	Malformed   uint64                  // connections closed because of a frame that is none
	Overflows   uint64                  // connections closed because the peer did not read its answers
	Busy        map[Cause]uint64        // requests refused with code 2, by cause; those that happened
	Panics      uint64                  // handlers that failed
	Requests    map[code.Request]uint64 // by code, of the routes that were used
	Unknown     uint64                  // requests of codes without a route
}

// Stats returns the counters as they are now.
func (s *Server) Stats() Stats {
	st := Stats{
		Connections: s.count(),
		Opened:      s.stats.opened.Load(),
		Refused:     s.stats.refused.Load(),
		Idle:        s.stats.idle.Load(),
		Malformed:   s.stats.malformed.Load(),
		Overflows:   s.stats.overflows.Load(),
		Panics:      s.stats.panics.Load(),
		Busy:        make(map[Cause]uint64),
		Requests:    make(map[code.Request]uint64),
	}
	for c := range s.stats.busy {
		if n := s.stats.busy[c].n.Load(); n > 0 {
			st.Busy[Cause(c)] = n
		}
	}
	for _, sh := range s.stats.shards {
		for i := range s.opt.Routes {
			if n := sh.requests[i].Load(); n > 0 {
				st.Requests[s.opt.Routes[i].Code] += n
			}
		}
		st.Unknown += sh.requests[len(s.opt.Routes)].Load()
	}
	return st
}
