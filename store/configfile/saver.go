package configfile

import "sync"

// Saver makes one write out of many requests to save the state behind a file.
// A request is served by a write whose content was encoded after the request
// came, so whoever waited for it knows that his change is on disk.
//
// Writes are made by a goroutine that runs only while there is something to
// write: the first request starts it, those that come while it writes share its
// next write. A burst of a thousand changes costs two or three writes.
type Saver struct {
	file   *File
	encode func() ([]byte, error)

	mu      sync.Mutex
	asked   uint64 // requests so far
	saved   uint64 // requests up to here are on disk
	waiting []waiter
	writing bool
	writer  sync.WaitGroup
}

// waiter wants the requests up to number upTo on disk.
type waiter struct {
	upTo uint64
	done func(error)
}

// NewSaver saves what encode returns. encode takes the locks of the state
// itself; it is never called by two goroutines at a time.
func NewSaver(file *File, encode func() ([]byte, error)) *Saver {
	return &Saver{file: file, encode: encode}
}

// Ask says that the state has changed. It returns at once; the write begins.
func (s *Saver) Ask() {
	s.mu.Lock()
	s.asked++
	s.start()
	s.mu.Unlock()
}

// After calls done once, when everything asked for until now is durable, or with
// the error of the write that should have made it so. When it is so already, and all
// who came before were told, done is called before After returns, else by the
// goroutine that writes, in the order of the calls; done must not wait for anything.
func (s *Saver) After(done func(error)) {
	s.mu.Lock()
	// Somebody who was served by the last write may be being told just now.
	if s.saved >= s.asked && !s.writing {
		s.mu.Unlock()
		done(nil)
		return
	}
	s.waiting = append(s.waiting, waiter{s.asked, done})
	s.start() // again, if the last write has failed
	s.mu.Unlock()
}

// Save returns when the state as it is now, or a later one, is durable.
func (s *Saver) Save() error {
	s.Ask()
	return s.Settle()
}

// Settle returns when everything asked for until now is durable.
func (s *Saver) Settle() error {
	result := make(chan error, 1)
	s.After(func(err error) { result <- err })
	return <-result
}

// Wait returns when the goroutine that writes has ended. Nobody may ask any more.
func (s *Saver) Wait() { s.writer.Wait() }

// start is called with the lock held.
func (s *Saver) start() {
	if !s.writing {
		s.writing = true
		s.writer.Go(s.write)
	}
}

// write writes until everything asked for is on disk, or a write has failed that
// nobody waits behind.
func (s *Saver) write() {
	for {
		s.mu.Lock()
		upTo, due := s.asked, s.saved < s.asked
		s.mu.Unlock()
		var err error
		if due {
			var content []byte
			if content, err = s.encode(); err == nil {
				err = s.file.Save(content)
			}
		}
		s.mu.Lock()
		if err == nil {
			s.saved = upTo
		}
		n := 0
		for n < len(s.waiting) && s.waiting[n].upTo <= upTo {
			n++
		}
		served := s.waiting[:n:n]
		s.waiting = s.waiting[n:]
		s.mu.Unlock()
		for _, w := range served {
			w.done(err)
		}
		s.mu.Lock()
		if s.asked == upTo && len(s.waiting) == 0 {
			s.writing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}
