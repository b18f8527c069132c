package logs

import (
	"io"
	"sync"
	"time"
)

const (
	// mostWaiting bounds the bytes that wait for being written. What comes on top is counted and left out: a server
	// goes on when nobody reads its log, and does not fill the memory with it.
	mostWaiting = 4 << 20
	// patience is how long Sync waits, at the end of the process or before it dies, for a stream that is stuck.
	patience = 2 * time.Second
)

// lines gives log lines to a goroutine that writes them. Whoever logs, an event loop above all, never waits for a
// disk, for a pipe that nobody reads, or for a terminal that was stopped.
type lines struct {
	out     io.Writer
	dropped func(lines int) []byte // a line that says so

	wake chan struct{} // cap 1
	done chan struct{} // the goroutine has ended

	mu      sync.Mutex
	waiting []byte
	lost    int
	synced  []chan struct{} // closed when what waits now is written
	closed  bool
}

func newLines(out io.Writer, dropped func(int) []byte) *lines {
	l := &lines{out: out, dropped: dropped, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l
}

// Write takes one line. It does not wait, and never fails.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	if len(l.waiting)+len(p) > mostWaiting {
		l.lost++
	} else {
		l.waiting = append(l.waiting, p...)
	}
	l.mu.Unlock()
	l.signal()
	return len(p), nil
}

func (l *lines) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Sync waits until the lines so far are written, but not for ever.
func (l *lines) Sync() error {
	written := make(chan struct{})
	l.mu.Lock()
	l.synced = append(l.synced, written)
	l.mu.Unlock()
	l.signal()
	select {
	case <-written:
	case <-l.done:
	case <-time.After(patience):
	}
	return nil
}

// Close writes what waits, and ends the goroutine unless it is stuck.
func (l *lines) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.signal()
	select {
	case <-l.done:
	case <-time.After(patience):
	}
}

func (l *lines) run() {
	defer close(l.done)
	var spare []byte
	for range l.wake {
		for more := true; more; {
			l.mu.Lock()
			batch, lost, synced, closed := l.waiting, l.lost, l.synced, l.closed
			l.waiting, l.lost, l.synced = spare[:0], 0, nil
			l.mu.Unlock()
			// An error has nowhere to go: this is where it would be told.
			if len(batch) > 0 {
				_, _ = l.out.Write(batch)
			}
			if lost > 0 {
				_, _ = l.out.Write(l.dropped(lost))
			}
			for _, s := range synced {
				close(s)
			}
			if spare = batch; cap(spare) > mostWaiting/16 {
				spare = nil
			}
			more = len(batch) > 0
			if !more && closed {
				return
			}
		}
	}
}
