//go:build race || invariants

package broker

// allocatesMore: this build allocates for its checks.
const allocatesMore = true
