// Package config gathers the settings of a server from the places where operators of RocketMQ put them. The weakest
// comes first:
//
//	defaults of RocketMQ 5.5.0, which depend on the host
//	environment            NAMESRV_ADDR, ROCKETMQ_HOME, -D options in JAVA_OPT, JAVA_OPTS, HEAP_OPTS, JAVA_OPT_EXT
//	TLS properties file    tls.config.file, /etc/rocketmq/tls.properties
//	configuration file     -c FILE, a Java properties file with any key of the original
//	flags                  --store, --bind, -n
//	single settings        --set key=value
//
// A process with both servers (gantry standalone) has one file and one list of settings: what belongs to the name
// server alone goes to it, everything else to the broker.
package config
