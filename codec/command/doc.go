// Package command reads and writes the remoting command: the header of every request and every response.
//
// A message on the wire goes through three packages, from the outside in:
//
//	frame    cuts the stream:  length | serialization, header length | header bytes | body bytes
//	command  reads the header bytes: what is asked (code), which request this is (opaque), who asks (language,
//	         version), request, response or oneway (flag), a text for people (remark), and the ext fields,
//	         a map of text to text
//	header   turns the ext fields of one kind of request or response into a struct with numbers and booleans
//
// and back: a struct of package header writes its ext fields through a Writer into a frame that this package starts.
// The body is opaque to all three.
//
// A header comes in two serializations, which every frame names for itself. JSON:
//
//	{"code":310,"extFields":{"a":"PG1","b":"TopicA"},"flag":0,"language":"JAVA","opaque":6,
//	 "serializeTypeCurrentRPC":"JSON","version":513}
//
// and binary ("ROCKETMQ"), all integers big endian:
//
//	int16 code | uint8 language | int16 version | int32 opaque | int32 flag | int32 length, remark |
//	int32 length of the map, { int16 length, key, int32 length, value }
//
// A server answers in the serialization it is configured for, not in that of the request.
//
// # Reading
//
// Decode works in place. The fields of a Command are views of the header bytes, and escapes are resolved inside
// these bytes, so a header can be decoded only once and nothing may be kept after the bytes are reused (Copy makes a
// Command that stands alone). Decoding into the same Command again does not allocate.
//
// Clients were written against Java's JSON reader (fastjson2), so Decode takes what it takes: numbers as text, with
// decimals or in strings, single quotes, missing and trailing commas, comments, any blanks, duplicate members (the
// last one wins), unknown members, nested values in ext fields. It refuses what Java refuses: unquoted keys, a byte
// order mark, text behind the header, an extFields that is no object, numbers over 32 bits, broken escapes. Known
// differences, none of which a client could have relied on: comments and NULs are taken everywhere; nested values keep
// their text as it was written; a number with an exponent stays as it is as an ext field; objects and arrays where a
// number belongs, a missing opening brace and escapes with letters that are no hex digits are refused, of which Java
// makes something; bytes left over in a binary header are refused, while Java takes them for the start of the body;
// more than MaxFields ext fields are refused.
package command
