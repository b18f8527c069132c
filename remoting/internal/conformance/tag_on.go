//go:build invariants

package conformance

const invariants = true
