package configfile

import "sync"

// Saver makes one write out of many requests to save the state behind a file.
// A request is served by a write whose content was encoded after the request
// came, so whoever waited in Save knows that his change is on disk.
type Saver struct {
	file   *File
	encode func() ([]byte, error)

	mu      sync.Mutex
	done    sync.Cond
	asked   uint64 // requests so far
	saved   uint64 // requests up to here are on disk
	failed  uint64 // requests up to here were in a write that failed with err
	err     error
	writing bool
}

// NewSaver saves what encode returns. encode takes the locks of the state
// itself; it is never called by two goroutines at a time.
func NewSaver(file *File, encode func() ([]byte, error)) *Saver {
	s := &Saver{file: file, encode: encode}
	s.done.L = &s.mu
	return s
}

// Save returns when the state as it is now, or a later one, is durable.
// Calls that come while a write is running share the next one.
func (s *Saver) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.wait(s.asked)
}

func (s *Saver) wait(want uint64) error {
	tried := false
	for s.saved < want {
		switch {
		case tried && s.failed >= want:
			return s.err
		case s.writing:
			s.done.Wait()
			tried = true
		default:
			s.write()
			tried = true
		}
	}
	return nil
}

// write does one write for everything asked until now.
func (s *Saver) write() {
	s.writing = true
	upTo := s.asked
	s.mu.Unlock()
	content, err := s.encode()
	if err == nil {
		err = s.file.Save(content)
	}
	s.mu.Lock()
	s.writing = false
	if err != nil {
		s.failed, s.err = upTo, err
	} else {
		s.saved = upTo
	}
	s.done.Broadcast()
}
