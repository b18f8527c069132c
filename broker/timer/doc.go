// Package timer delivers messages at the millisecond that they ask for.
//
// A timed message waits in the topic rmq_sys_wheel_timer, queue 0 (package put
// stores it there), with its topic and queue in the properties REAL_TOPIC and
// REAL_QID, and its time, rounded down, in TIMER_OUT_MS. Package store/timer has the
// files that say what is due when; one goroutine is their only writer:
//
//	send, put ──> log ──> rmq_sys_wheel_timer      one goroutine:
//	               ^            │ units              enqueue: reads what has come, enters it
//	               │            v                      in timer log and wheel
//	               │      timer log, wheel           load: takes the slot of the coming second
//	               │            │                      into memory, ordered by millisecond
//	               │            v                    deliver: what is due, in one turn of the log
//	               └── put.Store: real topic
//	flusher: log, wheel, check and metrics, once in timerFlushIntervalMs
//	store's cleaner: Rescue, before a file of the commit log is deleted
//
// # When
//
// A slot of the wheel is as wide as timerPrecisionMs, a second. TIMER_OUT_MS is the
// slot that ends at the requested millisecond at the earliest: a message of slot s
// is due at a millisecond in s+1 ... s+1000. Java delivers all of them at s+1000 or
// later. The exact one is in the properties the client has set: TIMER_DELIVER_MS, or
// the store time of the record plus TIMER_DELAY_SEC or TIMER_DELAY_MS. What cannot
// be known is s+1000, never early. So that a message need not be read twice, the
// timer log holds the requested millisecond - 1 where Java has s: the slot is the
// same, and Java takes any time of it.
//
// A slot is read a quarter of a second before it begins. Only its places in the
// commit log are in memory, 32 bytes for each message.
//
// # Rolls
//
// A message whose time is further away than timerRollWindowSlot slots is entered for
// a time in between, when it is stored again in rmq_sys_wheel_timer, with
// TIMER_ROLL_TIMES one higher. A roll changes the store time, so it notes the
// requested millisecond - 1 in TIMER_OUT_MS. The same is done for messages that wait in a file of the commit
// log that is about to be deleted (Rescue): what is pending outlives the retention.
//
// # Recalls
//
// A message with TIMER_DEL_UNIQKEY is entered like any other, in the slot of the
// message that it takes away. Those of a slot are read when it is loaded; one that
// comes later works on what was not delivered yet.
//
// # What can go wrong
//
// A record the timers cannot use (a plain message in their topic, one that has left
// the log) is passed over, counted and logged. One that the disk does not give is
// tried again each second. When it is due that delays no other; before it is in the
// timer log those behind it wait, and after five minutes it is given up. A put that fails is tried again from
// the message that failed.
//
// The progress is two numbers: the queue offset of the first message that is not in
// the timer log, and the slot before which everything is delivered. Both are saved
// after what they claim is durable. So a crash loses nothing, however long the broker
// was down: the slots since the last save, about two seconds, are delivered once more,
// but for what is found in the queues already (replay). What cannot be told from
// another message for certain comes again. At a stop the slot that was begun is
// finished first.
package timer
