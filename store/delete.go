package store

import (
	"errors"
	"fmt"
	"maps"
	"sync"
)

// deletions are the topics that wait to be deleted. The dispatcher deletes all that
// have come together: noting them for good costs the same for many as for one.
type deletions struct {
	mu   sync.Mutex
	list []*deletion
}

type deletion struct {
	topic string
	err   error // set by the dispatcher
}

// DeleteTopic removes the queues of a topic. Its records stay in the log until
// they expire, and do not come back in a recovery. A topic of that name that
// is created later starts with empty queues. After an error the topic is as it was,
// but when its files could not be removed.
func (s *Store) DeleteTopic(topic string) error {
	d := &deletion{topic: topic}
	s.deletions.mu.Lock()
	s.deletions.list = append(s.deletions.list, d)
	s.deletions.mu.Unlock()
	return s.dispatcher.Do(func() error {
		s.deleteTopics()
		return d.err
	})
}

// deleteTopics deletes the topics that wait, none when an earlier call has done it.
func (s *Store) deleteTopics() {
	s.deletions.mu.Lock()
	list := s.deletions.list
	s.deletions.list = nil
	s.deletions.mu.Unlock()
	if len(list) == 0 {
		return
	}
	// A message that gets its number only now would have one of the old queue's, and
	// hide the message of a new queue that has the same.
	for _, d := range list {
		s.queues.Seal(d.topic)
	}
	s.commitLog.Fence()
	end := s.commitLog.Written()
	next := maps.Clone(s.deleted)
	for _, d := range list {
		next[d.topic] = end
	}
	if err := s.deletedFile.Save(next.encode()); err != nil {
		for _, d := range list {
			s.queues.Unseal(d.topic)
			d.err = fmt.Errorf("note the deletion of topic %s: %w", d.topic, err)
		}
		return
	}
	s.deleted = next
	for _, d := range list {
		s.builder.Forget(d.topic, end)
		d.err = errors.Join(s.queues.Delete(d.topic), s.extensions.Delete(d.topic))
	}
}
