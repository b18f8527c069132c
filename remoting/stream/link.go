package stream

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gantrymq/gantry/remoting"
)

// Sizes of a reader's buffer: it grows when reads fill it, and shrinks when they leave most of it empty for long.
const (
	firstBuffer = 2 << 10
	lastBuffer  = 64 << 10
	shrinkAfter = 32
)

// piece is how much is written at once, so that a slow peer's progress is seen.
const piece = 256 << 10

// link is one connection. Writing is a role that one goroutine at a time has (writing): the reader at the end of its
// round, or the writer goroutine.
type link struct {
	s    *remoting.Server
	nc   net.Conn
	conn *remoting.Conn

	mu      sync.Mutex
	below   sync.Cond     // the peer has read something, or the connection is closed
	kick    chan struct{} // wakes the writer goroutine, nil until there is one
	writer  sync.WaitGroup
	writing bool
	again   bool // look at the out-queue again before giving up the role
	shut    bool

	held atomic.Bool // the reader waits for below, or is about to

	vec  [][]byte    // of the goroutine that writes
	part net.Buffers // what of it is being written
}

func (l *link) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.shut:
	case l.writing:
		l.again = true
	default:
		if l.kick == nil {
			l.kick = make(chan struct{}, 1)
			l.writer.Go(l.write)
		}
		select {
		case l.kick <- struct{}{}:
		default:
		}
	}
}

func (l *link) Shut() {
	l.mu.Lock()
	first := !l.shut
	l.shut = true
	l.below.Broadcast()
	if first && l.kick != nil {
		close(l.kick)
	}
	l.mu.Unlock()
	if first {
		_ = l.nc.Close()
	}
}

// start gives up the writing role, which the link was born with so that nobody looks at conn too early.
func (l *link) start() {
	l.mu.Lock()
	l.writing, l.again = false, false
	l.mu.Unlock()
	l.flush()
}

// write is the writer goroutine.
func (l *link) write() {
	for range l.kick {
		l.flush()
	}
}

// read is the reader. first was read before.
func (l *link) read(first []byte) {
	l.start()
	err := l.take(first)
	buf := make([]byte, firstBuffer)
	small := 0
	for err == nil {
		var n int
		n, err = l.nc.Read(buf)
		if n > 0 {
			if e := l.take(buf[:n]); e != nil {
				err = e
			}
		}
		switch {
		case n == len(buf) && n < lastBuffer:
			buf = make([]byte, 4*len(buf))
			small = 0
		case n <= len(buf)/16 && len(buf) > firstBuffer:
			if small++; small == shrinkAfter {
				buf = make([]byte, firstBuffer)
				small = 0
			}
		default:
			small = 0
		}
	}
	reason := "closed by the peer"
	if !errors.Is(err, io.EOF) {
		reason = err.Error()
	}
	// The reason has to be in place before Shut makes the writer fail.
	l.conn.Close(reason)
	l.writer.Wait()
	l.conn.Gone(reason)
}

var errShut = errors.New("closed")

// take feeds the connection, writes the answers and waits until the peer has read most of them.
func (l *link) take(b []byte) error {
	rd := l.s.BorrowRound()
	defer l.s.ReturnRound(rd)
	for {
		if err := l.conn.Feed(rd, b); err != nil {
			l.flush() // what was answered before
			return err
		}
		b = nil
		l.flush()
		if !l.waitBelow() || l.conn.Closed() {
			return errShut
		}
		if !l.conn.Paused() {
			return nil
		}
	}
}

// waitBelow waits while the peer is behind by more than the high water mark.
func (l *link) waitBelow() bool {
	if !l.conn.Congested() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// First the word, then the look: progress does it the other way round, so one of the two sees the other.
	l.held.Store(true)
	defer l.held.Store(false)
	for l.conn.Congested() && !l.shut {
		l.below.Wait()
	}
	return !l.shut
}

// flush writes until the out-queue is empty, unless somebody is writing already, who then does it.
func (l *link) flush() {
	l.mu.Lock()
	if l.writing {
		l.again = true
		l.mu.Unlock()
		return
	}
	l.writing = true
	l.mu.Unlock()
	for {
		b := l.conn.Take()
		if b != nil {
			err := l.send(b)
			l.conn.Sent(b)
			if err != nil {
				l.conn.Close(err.Error())
			}
			continue
		}
		l.mu.Lock()
		if !l.again {
			l.writing = false
			l.mu.Unlock()
			return
		}
		l.again = false
		l.mu.Unlock()
	}
}

func (l *link) send(b *remoting.Batch) error {
	if one, ok := b.Single(); ok && len(one) <= piece {
		n, err := l.nc.Write(one)
		l.progress(n)
		return err
	}
	all := b.AppendTo(l.vec[:0])
	l.vec = all[:0]
	defer clear(all)
	for len(all) > 0 {
		n, size := 0, 0
		for n < len(all) && size < piece {
			size += len(all[n])
			n++
		}
		l.part = all[:n]
		sent, err := l.part.WriteTo(l.nc)
		l.progress(int(sent))
		if err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// progress tells of bytes that were written. What was queued before is no guide to whether the reader waits: workers
// add answers at any time.
func (l *link) progress(n int) {
	l.conn.Progress(n)
	if l.held.Load() && !l.conn.Congested() {
		l.mu.Lock()
		l.below.Broadcast()
		l.mu.Unlock()
	}
}
