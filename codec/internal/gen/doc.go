// Package gen writes the generated files of codec/code and codec/header from the tables that lie beside them.
// It is a package of its own so that the tests of the two can ask whether their files are current.
// Run it with go generate; codec/internal/gen/run is the command.
package gen
