package dispatch

import (
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// RoundRecords is the most records in one round.
const RoundRecords = consumequeue.RoundRecords

// Record is one record of the log. Its slices are views that end with the
// call of the sink.
type Record struct {
	// Head is the record's. TagsCode is what the queue unit holds: for a
	// message of SCHEDULE_TOPIC_XXXX with a delay level, its time of delivery.
	message.Head

	// Queue is the queue that got a unit for the record in this round, at
	// QueueOffset; nil if none did: half and rolled back messages, and in
	// recovery what was there before.
	Queue *consumequeue.Queue
}

// Arrival says that a queue has grown: its messages From...Max-1 are new.
type Arrival struct {
	Queue     *consumequeue.Queue
	From, Max int64

	// Of the last of the new records, which is the only one if Max-From is 1.
	// Properties is a view.
	TagsCode   int64
	StoreTime  int64 // ms
	Properties []byte
}

// Round is what the dispatcher gives to a sink.
type Round struct {
	Records  []Record  // in the order of the log
	Arrivals []Arrival // one for each queue that has grown

	// Recovering: the store is being opened; nobody waits for messages yet.
	Recovering bool
}

// Sink is told of the records of a round after they have become visible. It
// runs on the dispatcher's goroutine and must not block. An error stops the
// dispatcher.
type Sink interface {
	Dispatch(*Round) error
}
