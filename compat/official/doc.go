// Package official runs the integration tests of the RocketMQ project itself, as published
// (org.apache.rocketmq:rocketmq-test:5.5.0, classifier tests), against Gantry.
//
// # How they reach Gantry
//
// The tests start a name server and three brokers by themselves, as objects of the classes NamesrvController and
// BrokerController. In java/ are two own classes of these names, which stand before the servers' jars on the class path.
// Such an object writes the configuration that the test gave it, as far as it differs from the defaults, into an ordinary
// file of properties, and has a server process started with it: `gantry namesrv -c FILE`, `gantry broker -c FILE`, or the
// Java servers. The classes of the suite stay as they are, the ones that set its servers up included.
//
// What a test asks the server object goes over the wire: setters of the configuration become request 25 (318 at the name
// server), and likewise offsets, topics, groups and the rest (java/gantry/official/Views.java, RemoteStore.java). A few
// questions have no request; the test then ends as INPROC.
//
//	test process (Go)                     JVM ("runner")                       servers (processes)
//	  queue of classes  -- run CLASS ---->  JUnit: official classes
//	                                        stand-in .start()
//	  starts process    <- start FILE ----  ..............................->   gantry broker -c FILE
//	                    --- ok ---------->  clients of the suite   <------->
//	  results           <- test, done ----
//
// All lines go over the JVM's standard input and output, see Runner.java and Servers.java. Several runners work on one queue
// of classes; each has servers of its own, so classes cannot disturb each other's brokers; those that change the brokers'
// configuration or start them anew come last.
//
// # What must pass
//
// baseline.tsv has a line for each test: its outcomes on the Java servers, seconds, where it runs (ci: always; stress: with
// GANTRY_STRESS=1; out: nowhere) and why it is out. What the Java servers passed in three rounds in a row, Gantry has to pass.
// A class with a failed test gets one second try, which is reported. TestOfficialSuite does all that and writes its section
// of MATRIX.md; the command run adds rounds to the baseline, or tries single classes:
//
//	go run ./compat/official/run -servers java -rounds 3 -record
//	go run ./compat/official/run -match 'QueryMsg|OrderMsgIT' -dir /tmp/look
//
// Many tests start a consumer of a new group and send at once. The client asks for its offset, is told that there is none
// (the queue is empty), and then asks for the queue's end: a message that arrives between the two is never consumed, and the
// test says after two minutes that one of twenty is missing. It happens with the Java servers as well, on a busy machine.
package official
