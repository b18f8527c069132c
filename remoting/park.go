package remoting

// A consumer may ask for many pulls at once, and read the answers as fast as its network allows. Requests that are in a
// lane already cannot be kept back by not taking them up, so a worker that finds the peer of its next request behind
// with reading puts the request aside, on its connection. When bytes have moved some are put back.

// unparkStep is how many requests are put back at once. Each of them puts back more when it has been handled.
const unparkStep = 8

// park puts a request of a lane aside if its peer is behind. It returns false if it is not.
func (c *Conn) park(r *Request) bool {
	if !c.Congested() {
		return false
	}
	p := &c.parked
	p.Lock()
	defer p.Unlock()
	// First the count, then the look: unpark does it the other way round, so one of the two sees the other.
	p.n.Add(1)
	if !c.Congested() || c.Closed() {
		p.n.Add(-1)
		return false
	}
	if p.tail == nil {
		p.head = r
	} else {
		p.tail.next = r
	}
	p.tail = r
	return true
}

// unpark puts some requests back if the peer has caught up.
func (c *Conn) unpark() {
	if c.parked.n.Load() > 0 && !c.Congested() {
		c.putBack(unparkStep)
	}
}

// unparkAll puts all back, at the end of the connection.
func (c *Conn) unparkAll() { c.putBack(int(c.parked.n.Load())) }

func (c *Conn) putBack(n int) {
	for range n {
		p := &c.parked
		p.Lock()
		r := p.head
		if r != nil {
			p.n.Add(-1)
			if p.head = r.next; p.head == nil {
				p.tail = nil
			}
			r.next = nil
		}
		p.Unlock()
		if r == nil {
			return
		}
		r.lane.put(r, true)
	}
}
