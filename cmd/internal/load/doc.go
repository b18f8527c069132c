// Package load drives a broker over raw remoting frames and measures rate, latency and the server's CPU time for each
// message. It is no client: frames are made once and only their changing digits are written anew, answers are only
// looked at for their code, so that on a machine that it shares with the server little of the CPU is its own.
//
//	Start ── a connection each ──> worker: send what may be in flight with one write, take the answers of one read, repeat
//	  │                              │ counts and latencies, taken out once a second
//	Measure(duration) <──────────────┘   any number of windows
//	Stop: waits for the last answers, and compares what was acknowledged with what the broker has stored
//
// There are two ways to send. A closed loop (Rate 0) keeps Inflight requests on the way on each connection: it finds
// the rate that the server can do. An open loop sends Rate requests a second whatever the answers do, and counts
// latency from the time at which a request was due, not from when it could be sent: a server that stalls for a second
// is charged with all the requests that would have been sent in that second (no coordinated omission).
//
// Pulls are one at a time on each connection, from the first offset to the end and again.
package load
