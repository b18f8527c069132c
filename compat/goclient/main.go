// Command goclient is the agent around the Apache Go client: it does what compat/java's Agent does with the Java
// client. Orders and answers are described in compat/agent.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net/url"
	"os"
	"strconv"
	"sync"
)

type agent struct {
	mu        sync.Mutex
	producers map[string]*producing
	consumers map[string]*consuming
	pullers   map[string]*pulling
}

var out struct {
	sync.Mutex
	*os.File
}

func main() {
	// The client's logger writes to standard error, which the harness keeps as the log; our lines get the real output.
	out.File = os.Stdout
	os.Stdout = os.Stderr
	a := &agent{producers: map[string]*producing{}, consumers: map[string]*consuming{}, pullers: map[string]*pulling{}}
	emit("event", "ready")
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		order, err := url.ParseQuery(in.Text())
		if err != nil {
			log.Fatalf("bad order %q: %v", in.Text(), err)
		}
		if order.Get("op") == "exit" {
			return
		}
		go a.answer(order)
	}
}

// emit writes one line of pairs.
func emit(pairs ...string) {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	out.Lock()
	defer out.Unlock()
	fmt.Fprintln(out.File, "@"+v.Encode())
}

func (a *agent) answer(order url.Values) {
	var found []string // members of the answer
	err := a.run(order, &found)
	if err != nil {
		emit("id", order.Get("id"), "ok", "false", "error", err.Error())
		return
	}
	emit(append(found, "id", order.Get("id"), "ok", "true")...)
}

func (a *agent) run(o url.Values, found *[]string) (err error) {
	switch o.Get("op") {
	case "producer":
		p, err := newProducer(o)
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.producers[o.Get("name")] = p
		a.mu.Unlock()
		return nil
	case "send", "request":
		a.mu.Lock()
		p := a.producers[o.Get("producer")]
		a.mu.Unlock()
		if p == nil {
			return fmt.Errorf("no producer %s", o.Get("producer"))
		}
		if o.Get("op") == "send" {
			return p.send(o)
		}
		*found, err = p.request(o)
		return err
	case "consumer":
		c, err := newConsumer(o)
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.consumers[o.Get("name")] = c
		a.mu.Unlock()
		return nil
	case "puller":
		p, err := newPuller(o)
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.pullers[o.Get("name")] = p
		a.mu.Unlock()
		return nil
	case "stop":
		a.mu.Lock()
		p, c, u := a.producers[o.Get("name")], a.consumers[o.Get("name")], a.pullers[o.Get("name")]
		delete(a.producers, o.Get("name"))
		delete(a.consumers, o.Get("name"))
		delete(a.pullers, o.Get("name"))
		a.mu.Unlock()
		switch {
		case p != nil:
			return p.close()
		case c != nil:
			return c.close()
		case u != nil:
			return u.close()
		}
		return fmt.Errorf("nothing is called %s", o.Get("name"))
	}
	return fmt.Errorf("unknown op %s", o.Get("op"))
}

// number gives an integer member, or absent when it is not there.
func number(o url.Values, key string, absent int) int {
	n, err := strconv.Atoi(o.Get(key))
	if err != nil {
		return absent
	}
	return n
}
