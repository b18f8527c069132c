// Package compat proves that official clients and Gantry's servers fit together, also mixed with Java's servers, and
// writes MATRIX.md from what it saw.
//
//	toolchain, setup.sh     JDK, Maven, jars, builds; all under .cache
//	java, goclient, agent   the official clients as puppets, and the strings
//	scenario                the plays: what clients must be able to do
//	javaserver, gantryserver, proc   servers as child processes
//	frames                  raw requests and the scripts that hold them
//	refusals                what Java's and Gantry's servers answer to the same raw requests
//	selectors               what SQL92 conditions choose, beside RocketMQ's own classes and its broker
//	differential            random raw requests to both, answers and stores compared
//	official                the official integration tests, run against Gantry
//	run                     command: one play against running servers or against any pair of servers
package compat
