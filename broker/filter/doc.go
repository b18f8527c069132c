// Package filter keeps what consumers want by an expression of SQL92: which group
// wants what of which topic, since when, and in which client's version.
//
//	heartbeat (34) ── Register ──> Manager ──> config/consumerFilter.json
//	                                  │
//	pull without expression ── Find ──┤        one Data for each group and topic
//	pull with one ── Compile ─────────┘
//	dispatcher ── Bits ──> the bit map of a message's extended queue unit
//
// # Life of a registration
//
// A heartbeat with an expression registers it, with the version that the client gives. A
// newer version with another text replaces it, one that does not compile takes it
// away; older ones are ignored. A group that leaves, or does not subscribe to the
// topic any more, leaves it dead: it is still used for bit maps, lives again when
// the same or a newer version comes back, and is forgotten
// filterDataCleanTimeSpan after its death. After a start all are dead until their
// consumers come back.
//
// # Bit maps
//
// With enableConsumeQueueExt and enableCalcFilterBitMap the dispatcher asks for each message which of
// the topic's registrations want it, and sets the bits of those in a bloom filter. A
// pull then leaves messages out without reading them. That is only right for
// messages stored after the registration: a new text makes a new one, and its
// Data.born is set when the dispatcher can see it.
//
// Forms and rules are those of RocketMQ's ConsumerFilterManager, and the files of both
// can be exchanged. An expression that does not compile is never one that
// matches everything.
package filter
