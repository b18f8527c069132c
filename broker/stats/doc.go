// Package stats counts what goes in and out: messages and bytes for each topic,
// queue and subscription, and the whole broker's rates.
//
// A counter is an Item: two atomics that request handlers add to. Everything
// else happens in Table.Tick, which one goroutine calls about once a second: it
// samples the counters into rings, from which the sum, the rate and the average
// of the last minute, hour and day are read. The rings have the original's
// lengths and steps (7 samples 10 s apart, 7 samples 10 min apart, 25 samples an
// hour apart), so tools show the same figures. A ring exists only for a counter
// that ever moved: 80,000 idle queues cost nothing.
//
// Handlers reach their counters through the handles they have anyway: a topic
// keeps its *Topic and *Queue, a subscription its *Subscription. By name, as
// administrators ask, Table.Snapshot finds all of them:
//
//	TOPIC_PUT_NUMS, TOPIC_PUT_SIZE            topic
//	QUEUE_PUT_NUMS, QUEUE_PUT_SIZE            topic@queue
//	GROUP_GET_NUMS, GROUP_GET_SIZE,
//	SNDBCK_PUT_NUMS, GROUP_ACK_NUMS,
//	GROUP_CK_NUMS, GROUP_GET_LATENCY          topic@group
//	QUEUE_GET_NUMS, QUEUE_GET_SIZE            topic@queue@group
//	BROKER_PUT_NUMS, BROKER_GET_NUMS, ...     cluster name
package stats
