package load

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gantrymq/gantry/codec/code"
)

// Try sends one message over a connection of its own: nil means that the broker has accepted it.
func Try(ctx context.Context, addr, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	w := &worker{conn: conn, in: make([]byte, 4<<10)}
	b, _ := newRequests(Options{Mode: Send, Size: 1, Topic: topic, Queues: 1, Batch: 1}, 1, 0).take(1, 0, 1, time.Now().UnixMilli())
	if _, err := conn.Write(b); err != nil {
		return err
	}
	a, _, err := w.answer()
	if err != nil {
		return err
	}
	if a.code != int64(code.Success) {
		return fmt.Errorf("refused with code %d: %s", a.code, remark(a.header))
	}
	return nil
}
