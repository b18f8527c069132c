//go:build invariants

package remoting

// invariants is on in test builds with the tag of this name: checks that are too dear for production.
const invariants = true
