package official

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// Options of a run.
type Options struct {
	Maker   Maker
	Dir     string        // for logs and stores
	Runners int           // JVMs side by side, each with a name server and three brokers of its own
	Limit   time.Duration // for each class
}

// Run runs the classes once, in their order, and gives each result as it comes (one call at a time). The error tells of
// classes that did not end, and of Gantry's servers that reported a fault of themselves.
func (o Options) Run(ctx context.Context, classes []Class, each func(Result)) error {
	queue := make(chan Class, len(classes))
	for _, c := range classes {
		queue <- c
	}
	close(queue)
	var mu sync.Mutex
	var errs []error
	note := func(err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	}
	var wait sync.WaitGroup
	for i := range min(o.Runners, len(classes)) {
		wait.Go(func() {
			o.work(ctx, filepath.Join(o.Dir, fmt.Sprint("runner-", i+1)), queue, note, func(r Result) {
				mu.Lock()
				defer mu.Unlock()
				each(r)
			})
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// work runs classes of the queue, with a new JVM and new servers after one that did not end.
func (o Options) work(ctx context.Context, dir string, queue <-chan Class, note func(error), each func(Result)) {
	var r *runner
	born := 0
	for c := range queue {
		if ctx.Err() != nil {
			note(fmt.Errorf("%s: not begun: %w", c.Name, ctx.Err()))
			continue
		}
		limited, cancel := context.WithTimeout(ctx, o.Limit)
		var err error
		if r == nil {
			born++
			if r, err = startRunner(o.Maker, filepath.Join(dir, fmt.Sprint(born))); err != nil {
				cancel()
				note(err)
				return
			}
			err = r.warmUp(limited)
		}
		if err == nil {
			err = r.run(limited, c, each)
		}
		cancel()
		if err != nil {
			note(err)
			note(r.close(false))
			r = nil
		}
	}
	if r != nil {
		note(r.close(true))
	}
}
