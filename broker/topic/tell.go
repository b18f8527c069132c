package topic

import (
	"fmt"
	"sync"

	"go.uber.org/zap"
)

// teller passes changed topics on to Options.OnChange, which may wait for name
// servers, many at a time: those that change while it waits are told together
// afterwards. Its goroutine runs only while there is something to tell.
type teller struct {
	tell func([]*Topic)

	mu      sync.Mutex
	topics  []*Topic // to be told
	waiting []func() // called when they were
	running bool
	ended   sync.WaitGroup
}

// add has a topic told. It does not wait.
func (t *teller) add(h *Topic) {
	t.mu.Lock()
	t.topics = append(t.topics, h)
	t.start()
	t.mu.Unlock()
}

// after calls done when everything added until now was told, at once if it was.
func (t *teller) after(done func()) {
	t.mu.Lock()
	if !t.running {
		t.mu.Unlock()
		done()
		return
	}
	t.waiting = append(t.waiting, done)
	t.mu.Unlock()
}

// start is called with the lock held.
func (t *teller) start() {
	if !t.running {
		t.running = true
		t.ended.Go(t.run)
	}
}

func (t *teller) run() {
	for {
		t.mu.Lock()
		topics, waiting := t.topics, t.waiting
		t.topics, t.waiting = nil, nil
		if len(topics) == 0 && len(waiting) == 0 {
			t.running = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		if len(topics) > 0 {
			t.tell(topics)
		}
		for _, done := range waiting {
			done()
		}
	}
}

// changed is the end of every change, called with the lock held: the write begins,
// and once it is durable name servers hear of the topic, if tell is set. (The write
// cannot end before the lock is given back, since encoding takes it.)
func (t *Table) changed(h *Topic, tell bool) {
	t.version.Next(0, t.o.Now())
	t.saver.Ask()
	t.saver.After(func(err error) {
		if err != nil && err != t.logged { // the same error for all that shared the write
			t.logged = err
			t.o.Log.Error("topics cannot be saved; the changes are lost at the next start", zap.Error(err))
		}
		if tell && t.o.OnChange != nil {
			t.teller.add(h)
		}
	})
}

// Settle calls done once, when every change made until now is durable and name
// servers were told of it, or with the error of the write that failed: the changes
// are in force then, but lost at the next start. done must not wait for anything.
func (t *Table) Settle(done func(error)) {
	t.saver.After(func(err error) {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrNotSaved, err)
		}
		t.teller.after(func() { done(err) })
	})
}

// settle is Settle for those who wait.
func (t *Table) settle() error {
	result := make(chan error, 1)
	t.Settle(func(err error) { result <- err })
	return <-result
}

// Close brings everything to disk and ends the goroutines. Nobody may change
// anything any more.
func (t *Table) Close() error {
	err := t.saver.Save()
	t.saver.Wait()
	t.teller.ended.Wait()
	return err
}
