// Package namesrv is the name server: brokers register with it, clients ask it
// where a topic is.
//
// It holds no message and remembers nothing but the key-value configuration
// (package kv): what it knows of brokers and topics (package route) it has
// from their registrations, and it forgets a broker whose connection closes or
// that stays silent. Several name servers do not know each other; brokers
// register with each.
//
//	routes.go     the table of request codes, and where each is handled
//	server.go     options, start, stop, the clean-up of silent brokers
//	register.go   what brokers ask: registration and heartbeats
//	query.go      what clients and tools ask: routes, clusters, topic lists
//	admin.go      what tools change: permissions, topics, key-value pairs
//	config.go     settings over the wire
//
// # Lanes
//
// A route is a look-up in memory and is answered inline, on the loop that read
// the request; so are heartbeats, which must not wait behind registrations.
// Registrations may be megabytes of JSON: they go to the Admin lane, which has
// one worker, so that what one broker says takes effect in the order in which
// it said it. Lists and whatever writes a file go to the Query lane.
package namesrv
