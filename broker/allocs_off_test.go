//go:build !race && !invariants

package broker

const allocatesMore = false
