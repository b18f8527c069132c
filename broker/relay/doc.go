// Package relay passes questions of administrators on to consumers and their
// answers back: the running info of one (request 307), let one consume a stored
// message (309), how far the members of a group have come (223, asked with 221).
//
// Nothing waits in it. A question goes down with remoting's Conn.Call and the
// request is detached; the client's answer, or that none came in time, finishes
// it. So a silent client costs memory for ten seconds and no worker of a lane.
//
// The broker does not look into the answers to 307 and 309: code, remark, fields
// and body reach the administrator as the client gave them, JSON or not. Those to
// 221 are put together into one table; a client that does not answer, or in a way
// that cannot be read, is missing there, as in the original.
package relay
