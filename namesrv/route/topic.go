package route

import "github.com/gantrymq/gantry/codec/body"

// WipeWrite takes the write permission from all topics of a broker name, here
// only: the broker itself knows nothing of it, and a registration with changed
// topics ends it. It returns the number of topics, those that had none
// included.
func (t *Table) WipeWrite(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[name]
	if g == nil {
		return 0
	}
	for topic := range g.topics {
		q := t.topics[topic][name]
		if !q.wiped {
			q.wiped, q.perm = true, q.Perm
		}
		q.Perm &^= body.PermWrite
	}
	return len(g.topics)
}

// AddWrite undoes WipeWrite: each topic gets the permission it had. (Java makes
// all of them readable and writable, read-only ones too.)
func (t *Table) AddWrite(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[name]
	if g == nil {
		return 0
	}
	for topic := range g.topics {
		if q := t.topics[topic][name]; q.wiped {
			q.wiped, q.Perm = false, q.perm
			if g.headless() {
				q.Perm &^= body.PermWrite
			}
		}
	}
	return len(g.topics)
}

// DeleteTopic forgets a topic, of all brokers or, with a cluster, of that
// cluster's. The next registration of a broker that has it brings it back.
func (t *Table) DeleteTopic(name, cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cluster == "" {
		for broker := range t.topics[name] {
			t.dropQueues(name, broker)
		}
		delete(t.mappings, name)
		return
	}
	for broker := range t.clusters[cluster] {
		t.dropQueues(name, broker)
		t.dropMapping(name, broker)
	}
}

// AddTopic adds shares of one topic up to the first one of an unknown broker.
// A topic that was unknown is added wholly or not at all. It tells whether all
// were added.
func (t *Table) AddTopic(name string, shares []body.QueueData) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := len(shares)
	for i, q := range shares {
		if t.groups[q.BrokerName] == nil {
			known = i
			break
		}
	}
	if known < len(shares) && t.topics[name] == nil {
		return false
	}
	for _, q := range shares[:known] {
		t.putQueues(name, q)
	}
	return known == len(shares)
}
