package commitlog

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/segment"
)

const (
	// maxTurns is how many rounds a caller leads before it hands over.
	maxTurns = 8
	// slowTurn is how long a turn takes that must have waited for the disk: a
	// full piece into the page cache takes a tenth of it.
	slowTurn = 5 * time.Millisecond
	// maxPiece is where a write is cut: larger ones gain nothing, and the
	// buffer stays in the cache of the processor.
	maxPiece = 1 << 20
	// maxCopy is from where a draft is written by itself, without being copied:
	// the copy would cost more than the call.
	maxCopy = 64 << 10
	// maxSpare is the longest draft list that is kept for reuse.
	maxSpare = 1 << 14
)

// Append hands drafts over for being written, in their order. It never waits
// for somebody else's write: the drafts are written by this call, together
// with those of others, or by the leader that is at work. Each draft's Done is
// called once, maybe before Append returns. ds itself may be reused at once,
// a draft after its Done.
func (l *Log) Append(ds []*Draft) {
	if len(ds) == 0 {
		return
	}
	at := l.opts.Now()
	now := l.since(at)
	for _, d := range ds {
		d.queued = now
	}
	l.mu.Lock()
	n, size, status, err := l.accept(ds, now)
	if err != nil {
		defer l.refuse(ds[n:], status, err)
		if n == 0 {
			l.mu.Unlock()
			return
		}
	}
	l.queue = append(l.queue, ds[:n]...)
	l.queuedB += size
	if l.leading {
		l.watch(now)
		l.mu.Unlock()
		return
	}
	l.leading = true
	elsewhere := l.mayWait()
	if elsewhere {
		l.watch(now)
	}
	l.mu.Unlock()
	if elsewhere {
		l.relay <- struct{}{} // room for one, and there is one leader
		return
	}
	l.lead(maxTurns, at)
}

// refuse ends drafts that were not queued. Where others of the same call were,
// this may run after those are done: ds is read before.
func (l *Log) refuse(ds []*Draft, status Status, err error) {
	for _, d := range ds {
		d.refuse(status, err)
	}
	l.complete(ds)
}

// mayWait says that the next turn may have to wait for the disk: the one before
// did, or a segment has to be added. The caller may be an event loop, so that
// turn is for the log's own goroutine. l.mu is held.
func (l *Log) mayWait() bool {
	if l.slow {
		return true
	}
	at := l.written.Load() % l.opts.SegmentSize
	return at == 0 || at+l.queuedB+message.BlankLen > l.opts.SegmentSize
}

// admit says why drafts of so many bytes cannot be queued now; l.mu is held.
func (l *Log) admit(now, size int64) (Status, error) {
	switch {
	case l.closed:
		return NotWriteable, errClosed
	case !l.ready:
		return NotWriteable, errNotRecovered
	case !l.leading:
		return OK, nil
	case l.queuedB > 0 && l.queuedB+size > l.opts.MaxQueued:
		return Overload, errQueueFull
	}
	if from := l.busyFrom.Load(); from != 0 && now-from > int64(l.limits.BusyAfter) {
		return Busy, errStalled
	}
	return OK, nil
}

// LockAge is how long the present write has taken, in ms; 0 if none runs
// (Java's pageCacheLockTimeMills).
func (l *Log) LockAge() int64 {
	from := l.busyFrom.Load()
	if from == 0 {
		return 0
	}
	return max(0, (l.clock()-from)/1e6)
}

// lead writes what is queued until the queue is empty, or for some turns. now is
// the time of the first; zero: to be read when its drafts are known, since none may
// be stored before it came.
func (l *Log) lead(turns int, now time.Time) {
	ok := false
	defer func() {
		if !ok {
			// Fix, Seal or Done panicked, and the caller may survive that.
			// What was given out in this round is in doubt.
			l.fail(errPanic)
			l.busyFrom.Store(0)
			l.mu.Lock()
			l.resign()
			l.mu.Unlock()
		}
	}()
	for i := 0; ; i++ {
		l.mu.Lock()
		l.passFences()
		if len(l.queue) == 0 {
			l.resign()
			l.mu.Unlock()
			break
		}
		if turns > 0 && i > 0 && (i == turns || l.mayWait()) {
			l.mu.Unlock()
			l.relay <- struct{}{}
			break
		}
		batch := l.queue
		l.queue, l.queuedB = l.spare, 0
		l.spare = nil
		l.mu.Unlock()
		if i > 0 || now.IsZero() {
			now = l.opts.Now()
		}
		l.turn(batch, now)
		if cap(batch) <= maxSpare {
			clear(batch)
			l.spare = batch[:0]
		}
	}
	ok = true
}

// resign ends a lead; l.mu is held.
func (l *Log) resign() {
	l.leading = false
	l.passFences()
	if l.closed {
		close(l.drained)
	}
}

// Fence waits until the turn under way, if there is one, has been written: every
// draft that is placed later sees what the caller did before.
func (l *Log) Fence() {
	l.mu.Lock()
	if !l.leading {
		l.mu.Unlock()
		return
	}
	passed := make(chan struct{})
	l.fences = append(l.fences, passed)
	l.mu.Unlock()
	<-passed
}

// passFences lets those go that waited for the turn before; l.mu is held.
func (l *Log) passFences() {
	for _, f := range l.fences {
		close(f)
	}
	l.fences = nil
}

func (l *Log) relayLoop() {
	for range l.relay {
		l.lead(0, time.Time{})
	}
}

// turn writes one batch and completes it or leaves it to the flusher.
func (l *Log) turn(batch []*Draft, now time.Time) {
	l.busyFrom.Store(max(1, l.since(now)))
	before := l.written.Load()
	r := &l.round
	r.begin(l, max(now.UnixMilli(), l.storeTime.Load()))
	for _, d := range batch {
		r.place(d)
	}
	r.write(0)
	r.end()
	l.busyFrom.Store(0)
	l.slow = l.opts.Now().Sub(now) > slowTurn

	if l.written.Load() != before {
		if l.opts.Flush == Async {
			l.notify()
		}
		l.cool()
	}
	if l.opts.Flush == Async {
		l.complete(batch)
		if l.opts.FlushOnPut {
			l.flush.wake()
		}
		return
	}
	// Those that wait for nothing first: a waiting one may be completed, and
	// reused, by the flusher as soon as it is handed over.
	waiting := r.waiting[:0]
	done := r.done[:0]
	for _, d := range batch {
		if d.Status == OK && !d.NoWait {
			waiting = append(waiting, d)
		} else {
			done = append(done, d)
		}
	}
	l.flush.await(waiting)
	l.flush.wake()
	l.complete(done)
	clear(waiting)
	clear(done)
	r.waiting, r.done = waiting[:0], done[:0]
}

// cool gives up the mappings of the segments that are not hot any more.
func (l *Log) cool() {
	for hot := l.hotFrom(); l.cooled+l.opts.SegmentSize <= hot; l.cooled += l.opts.SegmentSize {
		if g, ok := l.series.Find(l.cooled); ok {
			g.Cool()
		}
	}
}

// complete tells the drafts' owners and counts.
func (l *Log) complete(ds []*Draft) {
	if len(ds) == 0 {
		return
	}
	t := tally{to: &l.stats, now: l.clock()}
	for _, d := range ds {
		t.add(d)
	}
	t.end()
	for _, d := range ds {
		if d.Done != nil {
			d.Done.AppendDone(d)
		}
	}
}

// round is the leader's state while it places and writes one batch. A piece is
// what one write brings to disk: drafts that lie one behind the other in one
// segment.
type round struct {
	log   *Log
	now   int64            // store time, ms
	seg   *segment.Segment // holds off, nil if it does not exist yet
	off   int64            // where the piece begins: l.written
	size  int64            // of the piece so far
	piece []*Draft
	buf   []byte

	noSegment error // creating a segment failed in this batch: not tried again in it
	failing   bool  // and it failed in the batch before too: not logged again

	waiting, done []*Draft // scratch of turn
}

func (r *round) begin(l *Log, now int64) {
	r.log, r.now = l, now
	r.off, r.size = l.written.Load(), 0
	r.failing, r.noSegment = r.noSegment != nil, nil
	r.seg, _ = l.series.Find(r.off)
}

func (r *round) end() {
	clear(r.piece)
	r.piece = r.piece[:0]
	r.seg = nil
	if cap(r.piece) > maxSpare {
		r.piece = nil
	}
	if cap(r.buf) > 2*maxPiece {
		r.buf = nil
	}
}

// place gives a draft its offsets, or refuses it.
func (r *round) place(d *Draft) {
	l := r.log
	d.Status, d.Err = OK, nil
	if f := l.failure.Load(); f != nil {
		d.refuse(NotWriteable, f.err)
		return
	}
	if d.orphaned() {
		d.refuse(Deleted, errDeleted)
		return
	}
	d.count = max(d.Count, 1)
	d.delta = d.QueueDelta
	if d.delta == 0 {
		d.delta = int64(d.count)
	}
	d.QueueOffset = 0
	if d.Counter != nil {
		d.QueueOffset = d.Counter.Load()
	}
	d.StoreTimestamp = r.now
	if d.Fix != nil {
		d.Fix(d)
		if d.Status != OK {
			return
		}
	}
	n := int64(len(d.Records))
	if err := checkFrames(d.Records, d.count, l.opts.MaxRecord); err != nil {
		d.refuse(IllegalSize, err)
		return
	}
	if n+message.BlankLen > l.opts.SegmentSize {
		d.refuse(IllegalSize, fmt.Errorf("%d bytes fit in no segment of %d", n, l.opts.SegmentSize))
		return
	}
	if n >= maxCopy {
		r.write(0)
	}
	if err := r.room(n); err != nil {
		d.refuse(CreateFailed, err)
		return
	}
	if f := l.failure.Load(); f != nil { // the piece before was written just now
		d.refuse(NotWriteable, f.err)
		return
	}
	d.PhysicalOffset = r.off + r.size
	d.end = d.PhysicalOffset + n
	d.patch()
	if d.Seal != nil {
		d.Seal(d)
	}
	d.advance()
	r.piece = append(r.piece, d)
	r.size += n
	if r.size >= maxPiece || n >= maxCopy {
		r.write(0)
	}
}

// checkFrames verifies that b is count records back to back, none above limit.
func checkFrames(b []byte, count, limit int) error {
	for i := range count {
		size, err := message.Size(b)
		if err != nil {
			return fmt.Errorf("record %d of %d: %w", i+1, count, err)
		}
		if size > len(b) {
			return fmt.Errorf("record %d of %d: %w", i+1, count, message.ErrShort)
		}
		if size > limit {
			return fmt.Errorf("record %d of %d has %d bytes, the limit is %d", i+1, count, size, limit)
		}
		b = b[size:]
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes behind %d records", len(b), count)
	}
	return nil
}

// patch fills the holes of the records, which checkFrames has seen.
func (d *Draft) patch() {
	b, phys, queue := d.Records, d.PhysicalOffset, d.QueueOffset
	for range d.count {
		size, _ := message.Size(b)
		message.Patch(b, queue, phys, d.StoreTimestamp)
		b = b[size:]
		phys += int64(size)
		if d.Counter != nil {
			queue++
		}
	}
}

// room makes sure that n bytes and a blank fit behind the piece, going to the
// next segment if they do not.
func (r *round) room(n int64) error {
	l := r.log
	at := r.off + r.size
	if r.seg == nil {
		start := at - at%l.opts.SegmentSize
		if l.series.Len() > 0 {
			start = l.series.End()
		}
		g, err := r.grow(start)
		if err != nil {
			return err
		}
		r.seg = g
	}
	left := r.seg.End() - at
	if n+message.BlankLen <= left {
		return nil
	}
	next, err := r.grow(r.seg.End())
	if err != nil {
		return err
	}
	r.write(left)
	r.seg = next
	return nil
}

// grow adds a segment. Where that fails, smaller drafts of the batch may still
// fit into the present one; for the others it is not tried again and again.
func (r *round) grow(start int64) (*segment.Segment, error) {
	if r.noSegment != nil {
		return nil, r.noSegment
	}
	g, err := r.log.series.Grow(start)
	if err != nil {
		err = fmt.Errorf("segment at %d of the message log cannot be created: %w", start, err)
		r.noSegment = err
		if !r.failing {
			r.log.log.Error("messages are refused", zap.Error(err))
		}
		return nil, err
	}
	return g, nil
}

// write brings the piece to disk and moves written. blank is the space left in
// the segment that an end-of-file blank is to cover, 0 for none.
func (r *round) write(blank int64) {
	if r.size == 0 && blank == 0 {
		return
	}
	b := r.buffer(blank)
	n, err := r.seg.WriteAt(b, r.off)
	if err != nil {
		r.failed(len(b), n, err)
		return
	}
	l := r.log
	r.off += r.size + blank
	// In this order: who sees the time sees the record too (flusher.run).
	l.written.Store(r.off)
	l.storeTime.Store(r.now)
	r.next()
}

func (r *round) next() {
	clear(r.piece)
	r.piece = r.piece[:0]
	r.size = 0
}

// buffer returns the bytes of the piece. A single draft is not copied: that is
// every message of a quiet broker, and every big one.
func (r *round) buffer(blank int64) []byte {
	if len(r.piece) == 1 && blank == 0 {
		return r.piece[0].Records
	}
	b := r.buf[:0]
	for _, d := range r.piece {
		b = append(b, d.Records...)
	}
	if blank > 0 {
		var head [message.BlankLen]byte
		message.PutBlank(head[:], int(blank))
		b = append(b, head[:]...)
	}
	r.buf = b
	return b
}

// failed takes back a piece whose write failed, and stops the log.
func (r *round) failed(size, n int, err error) {
	l := r.log
	err = fmt.Errorf("write of %d bytes at %d of the message log failed after %d: %w", size, r.off, n, err)
	l.fail(err)
	for i := len(r.piece) - 1; i >= 0; i-- {
		d := r.piece[i]
		d.giveBack()
		d.refuse(NotWriteable, err)
	}
	// Whole records may have reached the file, and a restart would find them.
	// Their senders were told otherwise.
	if zerr := r.seg.Zero(r.off, int64(size)); zerr != nil {
		l.log.Error("the rest of the failed write cannot be removed; the next start may find messages that were refused",
			zap.Int64("offset", r.off), zap.Int("bytes", size), zap.Error(zerr))
	}
	r.next()
}
