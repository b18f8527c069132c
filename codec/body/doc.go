// Package body holds the JSON bodies of requests, answers and configuration
// files, as structs with the names of Java's classes and members.
//
// They are read and written with package fastjson, whose text equals that of
// Java 5.5.0: members in alphabetical order, integer map keys bare, object keys
// as objects. Java's null is a nil pointer, map or slice, or an empty string
// where the tag says omitempty; all of these are left out. Initial values of
// Java's fields are set by SetDefaults before reading, so that a member an old
// client does not send means what it means in Java.
//
// Enums are strings of their own types. A word that Java would not know stays
// in the string as it came (Java makes it null in silence): see Known.
package body
