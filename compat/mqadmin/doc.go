// Package mqadmin runs RocketMQ's own mqadmin against Gantry: what administrators do by hand, and what their scripts read.
package mqadmin
