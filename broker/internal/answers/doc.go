// Package answers plays scripts of raw requests against a broker and compares
// what comes back with what the original server answered.
//
// A script is a text file. The original server's answers were written into it
// by playing the same script against it, so one file is both the question and
// the measured answer, and a reader sees them side by side:
//
//	# anything
//	mask "timestamp":[0-9]+ => "timestamp":0
//	open A B
//	A 34 {"body":"{\"clientID\":\"c1\"}"}
//	< {"code":0,"ext":{"IS_SUB_CHANGE":"true"}}
//	push B
//	< {"code":40,"flag":2,"ext":{"consumerGroup":"G"}}
//	quiet B
//	put T 0 3
//	close A
//
// A line "! {...}" behind an answer is what this server says instead, with a
// comment before it that says why. Remarks that are the text of a Java exception
// nobody expected may be any other text.
//
// "A 34 {...}" sends request code 34 on connection A and waits for its answer;
// members are ext (extension fields), body (behind the bytes of hex), lang, ver and
// flag; {{y*300}} is 300 times y, {{now+5000}} the time at which the script began and
// five seconds, in milliseconds ({{second+5000}}: of its full second), {{url64:text}} text in base64. "base 310 {...}" gives members that later
// requests of that code have if they have any; null takes a field out. "hold A 11
// {...}" sends and goes on, and "answer A" waits for the first such answer that is
// still to come. "keep H" remembers where the last answer says that a message lies: $H.log and $H.queue then stand for
// its physical and its queue offset. "push" waits for a frame that the server sends by itself, "reply A
// CODE {...}" answers the last one as a client does, "quiet" checks that none is there, "put TOPIC QUEUE COUNT" asks the caller to store
// messages, "max TOPIC QUEUE N" waits until a queue shows N of them, "sleep" lets
// the server's clock run. "unordered"
// says that the messages of an answer may come in any order. A mask replaces what no two servers share (times,
// counters) on both sides before they are compared. JSON bodies are compared by
// value and without regard to order, since the original writes its maps in hash
// order; the same goes for the properties of a message in a field of that name.
//
// The package speaks the wire by itself, with nothing of codec: a fault there
// must not hide itself in the tests.
package answers
