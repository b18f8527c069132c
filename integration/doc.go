// Package integration holds the tests that look at Gantry from outside: the
// rules of its source tree, and its processes as processes (kill -9, a full
// disk, a store that changes hands). It has no code of its own.
package integration
