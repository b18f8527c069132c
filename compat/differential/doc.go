// Package differential sends the same random requests to the Java 5.5.0 broker and to Gantry and compares what comes
// back, what consumers see and what lies on disk. It knows the protocol and the formats from compat/frames only and
// shares no code with the servers, so that a fault of theirs cannot hide itself.
//
// A run starts a pair of brokers with the same settings and performs episodes. An episode is a list of operations (Op)
// that a seed alone decides (Generate): nothing of it depends on answers, so the same seed gives the same list, and any
// part of the list is a list that can be performed. Topics, groups and client names carry the episode's own prefix; so
// one pair of brokers serves many episodes, each with a clean state.
//
//  1. Operations go one after the other to both brokers, each with its answer awaited (a oneway request is followed by
//     one that waits for it), and what reads waits until both have brought their queues up to date. So both see the same
//     order of events, and their answers can be compared word for word.
//  2. What happens later by itself (delays, retries) goes to topics of its own, which nothing else reads meanwhile.
//     When both brokers are at rest the topics are read to their ends and compared; where messages have come by several
//     ways into one queue, the order within each way counts.
//  3. At the end of a run both brokers are stopped, and their stores compared: the log record by record, the units of
//     the queues, the JSON files.
//
// What two brokers cannot have in common is masked, and each mask says why: see masks. Intended differences are rows of
// docs/differences.md: see exceptions. Everything else is reported with the seed and the operation, and the list of
// operations is made shorter as long as the difference stays.
package differential
