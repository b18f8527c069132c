// Package naming keeps the broker registered with its name servers.
//
// Each name server has a goroutine of its own, so that one that is down or slow
// never delays another:
//
//	                 ┌── server 10.0.0.1:9876: full ─ wait ─ changed topic ─ wait ─ period: full ...
//	Registrar ───────┤
//	 (topic changes, └── server 10.0.0.2:9876: full (fails) ─ 0.1 s ─ full (fails) ─ 0.2 s ─ ... 10 s
//	  address list)
//
// A full registration carries all topics; it is done at the start, every
// registerNameServerPeriod (10 to 60 s; without forceRegister only if the name
// server's data version differs), after anything that failed, after a lost
// connection (name servers drop a broker with it), and when the broker's
// permission changed. A changed topic is told at once by a registration
// that carries it alone, but never to a name server that has not taken a full one
// before: Java's refuses a first registration of one topic.
//
// The list of name servers is looked up by one more goroutine (book), which
// resolves names and asks an address server if so configured.
//
// What is registered is the topic's permission AND the broker's
// (brokerPermission).
package naming
