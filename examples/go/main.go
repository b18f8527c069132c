// Sends a message ("send", the default), or prints the messages that it gets until two seconds pass without one
// ("receive").
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const topic = "Greetings"

func main() {
	rlog.SetLogLevel("error")
	nameServer := os.Getenv("NAMESRV_ADDR")
	if nameServer == "" {
		nameServer = "127.0.0.1:9876"
	}
	run := send
	if len(os.Args) > 1 && os.Args[1] == "receive" {
		run = receive
	}
	if err := run(nameServer); err != nil {
		log.Fatal(err)
	}
}

func send(nameServer string) error {
	p, err := rocketmq.NewProducer(producer.WithGroupName("greeters"), producer.WithNameServer([]string{nameServer}))
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	result, err := p.SendSync(context.Background(), primitive.NewMessage(topic, []byte("Hello from Go")).WithTag("go"))
	if err != nil {
		return err
	}
	fmt.Println(result)
	return nil
}

func receive(nameServer string) error {
	c, err := rocketmq.NewPushConsumer(consumer.WithGroupName("greeted-by-go"), consumer.WithNameServer([]string{nameServer}),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	received := make(chan string)
	err = c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			received <- string(m.Body)
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	fmt.Println("received:", <-received)
	for {
		select {
		case body := <-received:
			fmt.Println("received:", body)
		case <-time.After(2 * time.Second):
			return c.Shutdown()
		}
	}
}
