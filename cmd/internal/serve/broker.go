package serve

import (
	"context"
	"fmt"

	"github.com/gantrymq/gantry/broker"
)

// brokerServer is a broker that serves.
type brokerServer struct {
	broker     *broker.Broker
	main, fast string // host:port as clients reach them
}

// openBroker opens and recovers the store, listens, and registers with the name servers.
func openBroker(ctx context.Context, o Options) (*brokerServer, error) {
	b, err := broker.New(broker.Options{Settings: o.Config.Broker, Serialize: o.Config.Serialize(), Log: o.Log.Named("broker"),
		Interrupted: func() error { return context.Cause(ctx) }})
	if err != nil {
		return nil, err
	}
	if err := b.Start(); err != nil {
		stop, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		_ = b.Shutdown(stop) // the error of the start is what matters
		return nil, err
	}
	a := b.Addresses()
	return &brokerServer{broker: b, main: a.Broker, fast: a.Fast}, nil
}

func (s *brokerServer) stop(ctx context.Context) error {
	if err := s.broker.Shutdown(ctx); err != nil {
		return fmt.Errorf("broker: stop: %w", err)
	}
	return nil
}
