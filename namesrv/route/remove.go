package route

import (
	"time"

	"github.com/gantrymq/gantry/codec/body"
)

// Member names a broker process, as UNREGISTER_BROKER does.
type Member struct {
	Cluster, Name, Addr string
	ID                  int64
	IDKnown             bool // false: whatever id it has
}

// Unregister removes a member that asks for it, and tells whether there was
// one. A member that has another id than the request says stays: the request
// is about what it was before (a slave that became master at its address).
func (t *Table) Unregister(u Member) (removed bool, n *Notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.members[key{u.Cluster, u.Name, u.Addr}]
	if m == nil || u.IDKnown && m.id != u.ID {
		return false, nil
	}
	return true, t.remove(m)
}

// Drop removes the members that belong to the owner, a connection that is
// closed, and returns them.
func (t *Table) Drop(o Owner) (gone []Member, notices []Notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.owned[o]
	for m := range set {
		gone = append(gone, m.name4())
		if n := t.remove(m); n != nil {
			notices = append(notices, *n)
		}
	}
	return gone, notices
}

// Silent is a member that Scan has removed, and whose it was.
type Silent struct {
	Member
	Owner Owner
}

// Scan removes the members that were silent for longer than they promised.
func (t *Table) Scan(now time.Time) (gone []Silent, notices []Notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.members {
		if now.Sub(m.last) <= m.timeout {
			continue
		}
		gone = append(gone, Silent{m.name4(), m.owner})
		if n := t.remove(m); n != nil {
			notices = append(notices, *n)
		}
	}
	return gone, notices
}

func (m *member) name4() Member {
	return Member{Cluster: m.cluster, Name: m.name, Addr: m.addr, ID: m.id, IDKnown: true}
}

// remove takes a member out, and with the last of a name all that the name
// said. It returns a notice when a group that knows acting masters lost its
// lowest id.
func (t *Table) remove(m *member) *Notice {
	t.forget(m)
	g := t.groups[m.name]
	if g == nil || g.ids[m.id] != m {
		return nil
	}
	lowest, _ := g.lowest()
	t.resign(g, m.id)
	if len(g.ids) == 0 {
		delete(t.groups, g.name)
		for name := range g.topics {
			t.dropQueues(name, g.name)
		}
		return nil
	}
	if !g.acting {
		return nil
	}
	if id, _ := g.lowest(); id > masterID {
		for name := range g.topics {
			t.topics[name][g.name].Perm &^= body.PermWrite
		}
	}
	if lowest != m.id {
		return nil
	}
	n := g.notice()
	n.OfflineAddr = m.addr
	for _, m := range g.ids {
		n.To = append(n.To, m.addr)
	}
	return &n
}
