// Package admin answers the requests of administrators: topics (17, 21), the
// broker's settings (25, 26) and its figures (28). All of them may wait for the
// disk or for name servers and must run in a lane.
package admin
