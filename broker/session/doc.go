// Package session knows which producers and consumers are connected, to which
// groups they belong and what the consumers subscribe to. All of it is memory:
// clients tell it again every 30 seconds.
//
// # What a heartbeat does
//
// It registers the connection as a member under each group that it names, with
// a time of its own for each group: a group that a client stops mentioning ends,
// though the connection goes on serving others. A consumer's heartbeat replaces
// the subscription of its whole group ("the last one wins", as clients know it;
// two members that subscribe differently are named in the log). Short heartbeats
// (withoutSub) register the member all the same.
//
// Members are told (request 40) when somebody joins or leaves or a topic is
// added to or taken from the subscription, so that they share the queues anew:
// all members of the group except in broadcast groups, and unless the group's or
// the broker's notifyConsumerIdsChangedEnable is off. Notices are sent by one
// goroutine, outside of all locks; changes that come while it sends, or soon
// after, are told once.
//
// A member goes by request 35, with its connection, or when it was silent for
// channelExpiredTimeout (Scan).
//
// # For pulls
//
// Table.Consumers finds a group by the bytes of its name, Group.Subscription the
// subscription of a topic, both without a lock or an allocation, and
// Subscription.Match looks at the tag code of a queue unit.
//
// # Locks
//
// Table.mu guards everything but the published views; it is a leaf but for the
// shards of package names, and never held over a call out.
package session
