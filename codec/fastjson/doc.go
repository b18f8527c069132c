// Package fastjson reads and writes JSON the way RocketMQ's Java side does with
// fastjson2, whose dialect is part of the wire and file formats:
//
//   - integer map keys are bare: {0:"127.0.0.1:10911"}
//   - maps keyed by an object have the object as key: {{"topic":"T"}:{…}}
//   - members that are null are left out, members of an object are in
//     alphabetical order
//   - byte arrays are lists of signed numbers, dates are local time as text
//
// Reading is more tolerant still: bare words as keys, single quotes, comments,
// trailing or missing commas, numbers and booleans inside strings, NaN, Base64
// (fastjson 1). Unmarshal converts as fastjson2 does, so that a body Java
// accepts is not refused here because a client wrote "3" for 3.
package fastjson
