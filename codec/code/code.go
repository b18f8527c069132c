// Package code holds the numbers of the remoting protocol and Java's names for them: request and response codes,
// and the language and version a peer states about itself.
//
// The constants come from the tables requests.tsv, responses.tsv, languages.tsv and versions.tsv in this folder
// (number and name as in the Java server 5.5.0). A Go name is Java's in camel case: LOCK_BATCH_MQ is LockBatchMQ;
// versions keep their form, V5_5_0. After a change of a table run go generate.
package code

import (
	"bytes"
	"strconv"
)

//go:generate go run ../internal/gen/run code

// Request is the code of a request: what the sender wants done.
// On the wire it is an int32 with a JSON header and an int16 with a binary one.
type Request int32

// Response is the code of a response; 0 is success.
type Response int32

// Language is the language a peer says it is written in. A JSON header carries its name, a binary header its number.
type Language uint8

// Version is the protocol version of a peer: the position of its release in Java's list of versions.
type Version int32

// UnknownLanguage stands for a language that is missing or that Java does not know (Java has null there).
const UnknownLanguage Language = 255

// Current is the version that Gantry states about itself.
const Current = V5_5_0

// String returns Java's name of the language, or its number when it has none.
func (l Language) String() string {
	if int(l) < len(languageNames) {
		return languageNames[l]
	}
	return decimal(int64(l))
}

// ParseLanguage finds a language by Java's name of it, in any case, since Java's JSON reader does not mind the case.
func ParseLanguage(name []byte) (Language, bool) {
	for i, n := range languageNames {
		if len(name) == len(n) && (string(name) == n || bytes.EqualFold(name, []byte(n))) {
			return Language(i), true
		}
	}
	return UnknownLanguage, false
}

// LanguageOf returns the language with a number, or UnknownLanguage.
func LanguageOf(n int) (Language, bool) {
	if n < 0 || n >= len(languageNames) {
		return UnknownLanguage, false
	}
	return Language(n), true
}

// String returns Java's name of the version. As in Java, a number past the list is HIGHER_VERSION.
func (v Version) String() string {
	switch {
	case v < 0:
		return decimal(int64(v))
	case int(v) < len(versionNames):
		return versionNames[v]
	}
	return versionNames[len(versionNames)-1]
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
