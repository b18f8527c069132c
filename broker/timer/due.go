package timer

// entry is a message of a slot that is in memory: where it lies, and when it is due.
type entry struct {
	at        int64 // ms
	physical  int64
	writeTime int64 // of its unit in the timer log
	size      int32
	magic     int32
}

func (e *entry) before(o *entry) bool {
	return e.at < o.at || e.at == o.at && e.physical < o.physical
}

// slot is a slot of the wheel that is in memory.
type slot struct {
	time    int64
	due     []entry             // a heap: the first is due first
	deletes map[string]struct{} // keys of messages that are recalled
	begun   bool                // something of it was delivered
}

func (s *slot) push(e entry) {
	s.due = append(s.due, e)
	for i := len(s.due) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.due[i].before(&s.due[up]) {
			return
		}
		s.due[i], s.due[up] = s.due[up], s.due[i]
		i = up
	}
}

func (s *slot) pop() entry {
	e := s.due[0]
	last := len(s.due) - 1
	s.due[0] = s.due[last]
	s.due = s.due[:last]
	s.down(0)
	return e
}

func (s *slot) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(s.due) {
			return
		}
		if c+1 < len(s.due) && s.due[c+1].before(&s.due[c]) {
			c++
		}
		if !s.due[c].before(&s.due[i]) {
			return
		}
		s.due[i], s.due[c] = s.due[c], s.due[i]
		i = c
	}
}

// order makes a heap of what was appended.
func (s *slot) order() {
	for i := len(s.due)/2 - 1; i >= 0; i-- {
		s.down(i)
	}
}

func (s *slot) recall(key []byte) {
	if s.deletes == nil {
		s.deletes = map[string]struct{}{}
	}
	s.deletes[string(key)] = struct{}{}
}
