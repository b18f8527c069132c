// Package topic keeps the broker's topics: their configuration, the file
// config/topics.json, and the handle that everything else hangs on.
//
// A request handler finds a topic once, by the bytes of its name (Table.Find),
// and holds a *Topic from then on: the configuration behind one atomic pointer,
// the consume queues by number, the counters. No second look-up by name is
// needed, nothing on that way locks or allocates. A handle stays usable when its
// topic is deleted; Deleted tells.
//
// Configurations are immutable values: a change makes a new one and swaps the
// pointer. Changes are made one at a time under Table's lock, step the data
// version, are durable in the file when the call returns, and are then told to
// Options.OnChange, through which the name servers hear of them at once. All
// methods that change something may wait for the disk and must not be called on
// an event loop.
package topic
