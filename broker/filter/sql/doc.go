// Package sql is the language in which a consumer with the expression type SQL92 says which messages it wants,
// such as
//
//	price BETWEEN 10 AND 99.5 AND (region IN ('eu', 'us') OR vip IS NOT NULL)
//
// [Compile] turns a text into an [Expression]; [Expression.Match] tells whether a message with these properties is
// wanted. The language, its logic and its oddities are those of RocketMQ 5.5.0 (its module rocketmq-filter), down
// to what it takes by mistake, for a consumer must get the same messages from either broker. testdata/java.txt
// holds what RocketMQ answered to every expression of the tests.
//
// # Grammar
//
//	selector   = or
//	or         = and { OR and }
//	and        = equality { AND equality }
//	equality   = comparison { ("=" | "<>") comparison | IS [NOT] NULL }
//	comparison = unary { (">" | ">=" | "<" | "<=") unary
//	                   | [NOT] BETWEEN unary AND unary
//	                   | [NOT] IN "(" string { "," string } ")"
//	                   | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string }
//	unary      = ("+" | "-" | NOT) unary | primary
//	primary    = string | integer | decimal | TRUE | FALSE | NULL | name | "(" or ")"
//
// Keywords are read in any case, names of properties ([A-Za-z_$][A-Za-z0-9_$]*) only in theirs. A string stands in
// single quotes, two of which make one within it. An integer has no leading zero, may end in L and fits into 64 bits; a
// decimal has a point or an exponent and is neither zero nor out of a double's range. Blanks are space, tab, line
// feed, return and form feed; comments are -- up to the end of a line, which must be there, and /* */.
//
// NOT binds closer than a comparison: NOT a = 1 is (NOT a) = 1, and NOT a > 1 does not compile.
//
// A selector ends where it can go on no longer: what follows is a tail that RocketMQ does not look at, apart from
// its first word, which must be one. So a = 01 means a = 0. [Expression.Tail] returns the tail, so that the caller can
// warn of it or refuse it.
//
// # Values
//
// A property is a string or missing, which is null. Conditions are true, false or unknown, and what is unknown at the
// end does not match; but a condition may also fail, and then the whole expression matches nothing, whatever
// stands beside it. What comes first decides: the right side of AND is not looked at when the left is
// false, that of OR when the left is true.
//
//   - A number beside a string: the string is read as a number of that kind, 32 bits for a literal that fits into them,
//     else 64 bits, or a double; one that is none fails. So f > 1 fails for f = 1.5 and f > 0.9 does not.
//   - Two strings are equal or not as texts; to be ordered both must be doubles, else it fails.
//   - A string beside a truth value is true when it says true in any case, else false.
//   - A number and a truth value are never equal. 1 = 1.0 is true.
//   - = is unknown when its left side is null, false when only its right side is, and true when both are.
//   - <, <=, >, >= and IN are unknown when something is null.
//   - CONTAINS, STARTSWITH and ENDSWITH are false, with NOT and without, for what is no string and for an empty
//     string to look for.
//   - A property alone as condition is false, unknown when it is missing.
//   - A minus before what is no number is null.
package sql
