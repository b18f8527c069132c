package load

import (
	"context"
	"fmt"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting/client"
)

// stored adds up the ends of the topic's queues.
func stored(ctx context.Context, o Options) (sum int64, err error) {
	c, err := client.New(client.Options{Name: "bench"})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for q := range o.Queues {
		n, err := end(ctx, c, o, q)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// end asks for the end of a queue.
func end(ctx context.Context, c *client.Client, o Options, queue int) (int64, error) {
	answer, err := c.Invoke(ctx, o.Addr, code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: o.Topic, QueueID: int32(queue), Committed: true}, nil)
	if err != nil {
		return 0, fmt.Errorf("ask for the end of queue %d: %w", queue, err)
	}
	if answer.Code != int32(code.Success) {
		return 0, nil // no such topic or queue yet
	}
	var h header.GetMaxOffsetResponse
	if err := h.Decode(answer.Fields); err != nil {
		return 0, fmt.Errorf("the end of queue %d: %w", queue, err)
	}
	return h.Offset, nil
}
