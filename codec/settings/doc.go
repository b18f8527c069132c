// Package settings knows every property of the Java servers' configuration
// classes and holds the values of one process.
//
// The table keys.tsv (class, property, type, default, meaning) is embedded; it
// was read from the classes of RocketMQ 5.5.0 by reflection. A Set covers some
// of those classes, as the Java servers fill several objects from one file:
//
//	set := settings.New("BrokerConfig", "NettyServerConfig", "NettyClientConfig", "MessageStoreConfig", "AuthConfig")
//	for _, p := range set.Load(text) {
//		log.Warn(p.Text())
//	}
//	set.Int("listenPort")
//
// Java takes whatever the file says in silence: a misspelt key, a number with a
// letter in it and a blank after a number leave the default. Here values are
// trimmed, what cannot be used is reported as a Problem and, as in Java, leaves
// what was there, and unknown keys are kept (they are listed again by request
// 26) and reported with the name that was probably meant.
//
// A key that several classes share has one value. Defaults that depend on the
// host are resolved when the Set is made; those that depend on other settings
// (haListenPort, the folders below storePathRootDir) whenever they are read.
package settings
