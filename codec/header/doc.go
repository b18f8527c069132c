// Package header has a struct for the ext fields of each kind of request and response. A struct is named like Java's
// class without the ending "Header", its fields like Java's.
//
// All but this file and values.go is generated from headers.tsv, whose rows are in the order of the fields. Columns:
//
//	area     generated file
//	header   name of the struct
//	field    name on the wire
//	name     name in Go
//	type     text (string), bytes (a view of the command, valid as long as that is), int32, int64, bool;
//	         "header" begins a header, "rpc" adds the fields of struct RPC
//	mode     required: without it the request cannot be done; a text is always written
//	         optional: Java's boxed types, an Opt here; a text is written unless it is empty
//	         default: read as the default if missing or unparsable
//	         in a "header" row: fast, for those that Java reads without reflection; there a number that does not
//	         parse is an error in every mode, elsewhere only in a required field
//	default  what is read for mode default; empty for zero
//	letter   short name, for the variant V2
//	meaning  a comment; in a "header" row the codes of the requests
//
// A text that is missing reads as empty without an error: Java's servers do not check it either, and what then happens
// is for the handler to say. Decode reads all fields it can and returns the first error, a *FieldError, so that a
// handler that can do without a field may go on.
//
// After a change of the table run go generate.
package header

//go:generate go run ../internal/gen/run header
