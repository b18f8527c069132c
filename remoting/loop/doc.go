// Package loop serves connections of a remoting.Server on a few event loops (gnet), one for each core by default. A
// loop reads up to 64 KiB from a socket, lets the connection handle the whole frames in place, and writes all their
// answers with one write; an idle connection costs no goroutine and no buffer.
//
// # Goroutines
//
//	acceptor   one for each listener: net.Listener.Accept, for gnet's own listener ends when descriptors run out
//	welcome    one for each new connection, until its first bytes are there: PROXY protocol, TLS or frames?
//	enroller   one for each loop: gives gnet one connection at a time and notices when a loop does not take it
//	loop       gnet's: everything that happens on a connection, including its handlers; it must never wait
//
// Answers from other goroutines: the connection is put on the loop's list of connections with something to do, and the
// loop is woken if it sleeps. If it is working it looks at the list by itself before it sleeps again, so a busy loop
// costs no wake-ups at all.
//
// # What gnet 2.9.7 lacks, and what is done about it
//
//   - No TLS, and zoned IPv6 peers corrupt its pools: such connections are served by package stream.
//   - Enroll can block for ever when a loop has ended, and reports a failed registration as success: it is given a
//     second, and only OnOpen counts.
//   - It copies what the kernel does not take without a limit: after each write the amount is told to the connection,
//     which stops taking up requests above its high water mark and is closed at its hard limit. gnet does not tell
//     when the rest has been written, so such connections are looked at every few milliseconds.
//   - It cannot stop reading: requests of a peer that is held back are kept, up to one frame of the largest size.
//   - Writev takes at most 1,024 segments, and rewrites them: the list is cut, and made anew each time.
//   - Writes on a closed connection are not checked: the loop keeps its own flag.
//   - A panic in a callback would end the process: everything called from a loop is recovered.
//
// On systems other than Linux the package serves everything with package stream.
package loop
