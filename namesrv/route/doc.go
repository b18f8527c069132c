// Package route is what a name server knows: which brokers are alive, at which
// addresses, in which clusters, and which topics they say they have. It is a
// state machine without sockets and clocks of its own: the server feeds it
// registrations and asks it for routes.
//
// # Who owns what
//
// A Registration makes or renews one member: a broker process, known by
// (cluster, broker name, address). A broker name is a group of members with
// ids; id 0 is the master. An id has one member at most: the one that
// registered last. A member that lost its id to another address stays known
// (its heartbeats and version questions are answered) but is in no route.
//
// A member belongs to an owner, the connection that registered it last. When
// the owner goes, the member goes, at once; when it registered anew elsewhere
// in between, it has another owner and stays. That, and removing by member
// instead of by address or name, is what keeps a late removal from hitting a
// fresh registration (apache/rocketmq#11043).
//
// A topic's queues are kept for each broker name, not for each member: the
// master says what they are, or the member with the lowest id in a group that
// knows about acting masters. They go with the last member of the name.
//
// # Locking
//
// One RWMutex guards all of it. It is a leaf: nothing is called under it but
// the settings of Options, no I/O happens under it, and everything handed out
// is a copy or is never changed again.
package route
