package settings

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/properties"
)

// Set holds the values of some configuration classes. Reading and changing it
// are safe from any goroutine; a reader sees each change whole.
type Set struct {
	host  Host
	rows  []*row
	index map[string]int
	mu    sync.Mutex // serialises changes
	state atomic.Pointer[state]
}

// state is never changed once it is published.
type state struct {
	values  []value
	unknown map[string]string
	version uint64
}

type value struct {
	text  string // canonical: what Java's toString would give
	null  bool
	set   bool // by Load or Put
	whole int64
	frac  float64
	truth bool
}

// New returns the defaults of these Java classes on this host. A name that is
// not in the table is a programming error and panics.
func New(classes ...string) *Set { return NewOn(ThisHost(), classes...) }

// NewOn is New for a given host.
func NewOn(h Host, classes ...string) *Set {
	s := &Set{host: h, index: make(map[string]int)}
	st := &state{unknown: map[string]string{}}
	namesrv := slices.Contains(classes, "NamesrvConfig")
	for _, class := range classes {
		keys := Keys(class)
		if len(keys) == 0 {
			panic("settings: no class " + class)
		}
		for _, k := range keys {
			if i, ok := s.index[k.Name]; ok {
				s.rows[i].classes = append(s.rows[i].classes, class)
				continue
			}
			s.index[k.Name] = len(s.rows)
			r := newRow(k)
			s.rows = append(s.rows, r)
			text, ok := h.initial(k, namesrv)
			v := value{null: !ok}
			if ok {
				if r.kind == kindFixed {
					v.text = text
					v.truth = text == "true"
				} else if p := r.parse(text, &v); p != nil {
					panic("settings: bad default: " + p.Text())
				}
			}
			st.values = append(st.values, v)
		}
	}
	s.state.Store(st)
	return s
}

// Host is what the defaults depended on.
func (s *Set) Host() Host { return s.host }

// Has reports whether the key belongs to one of the Set's classes.
func (s *Set) Has(key string) bool {
	_, ok := s.index[key]
	return ok
}

// Load applies the text of a properties file: all of it at once for readers.
// It returns what could not be used, in the order of the lines.
func (s *Set) Load(text []byte) []Problem {
	pairs, err := properties.Parse(text)
	var problems []Problem
	if err != nil {
		problems = append(problems, Problem{Kind: Malformed, Value: err.Error()})
	}
	last := make(map[string]int, len(pairs))
	for i, p := range pairs {
		last[p.Key] = i
	}
	s.change(func(st *state) {
		for i, p := range pairs {
			if last[p.Key] != i {
				continue // as in java.util.Properties, only the last one exists
			}
			if problem := s.apply(st, p.Key, p.Value); problem != nil {
				problem.Line = p.Line
				problems = append(problems, *problem)
			}
		}
	})
	return problems
}

// Put sets one key, for --set and for changes at run time. The value is
// trimmed. It returns nil when all is well.
func (s *Set) Put(key, val string) (problem *Problem) {
	s.change(func(st *state) { problem = s.apply(st, key, val) })
	return problem
}

func (s *Set) change(f func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.state.Load()
	st := &state{values: slices.Clone(old.values), unknown: make(map[string]string, len(old.unknown)), version: old.version + 1}
	for k, v := range old.unknown {
		st.unknown[k] = v
	}
	f(st)
	s.state.Store(st)
}

func (s *Set) apply(st *state, key, val string) *Problem {
	val = strings.TrimSpace(val)
	i, ok := s.index[key]
	if !ok {
		st.unknown[key] = val
		p := &Problem{Kind: Unknown, Key: key, Value: val}
		p.Nearest, p.Class = s.nearest(key)
		return p
	}
	r := s.rows[i]
	if r.kind == kindFixed {
		return &Problem{Kind: Ignored, Key: key, Value: val, Stays: st.values[i].text}
	}
	v := value{set: true}
	p := r.parse(val, &v)
	if p != nil {
		p.Stays = st.values[i].text
		if p.Kind == Unparsable {
			return p
		}
	}
	st.values[i] = v
	return p
}

// parse reads text as the row's type into v.
func (r *row) parse(text string, v *value) *Problem {
	v.text = text
	bad := func(kind Kind) *Problem {
		return &Problem{Kind: kind, Key: r.Name, Value: text, want: r.wants()}
	}
	switch r.kind {
	case kindInt, kindLong:
		bits := 64
		if r.kind == kindInt {
			bits = 32
		}
		n, err := strconv.ParseInt(text, 10, bits)
		if err != nil {
			return bad(Unparsable)
		}
		v.whole = adjust(r.Name, n)
		v.frac = float64(v.whole)
		v.text = strconv.FormatInt(v.whole, 10)
	case kindDouble:
		// Java takes a suffix, as in its source code.
		f, err := strconv.ParseFloat(strings.TrimRight(text, "dDfF"), 64)
		if err != nil && !math.IsInf(f, 0) || strings.ContainsRune(text, '_') {
			return bad(Unparsable)
		}
		v.frac = f
		v.text = string(fastjson.AppendDouble(nil, f))
	case kindBool:
		v.truth = strings.EqualFold(text, "true")
		v.text = strconv.FormatBool(v.truth)
		if !v.truth && !strings.EqualFold(text, "false") {
			return bad(ReadAsFalse)
		}
	case kindWord:
		if n, err := strconv.Atoi(text); err == nil && r.Name == "metricsExporterType" && n >= 0 && n < len(r.words) {
			v.text = r.words[n] // this setter takes numbers too
		} else if !slices.Contains(r.words, text) {
			p := bad(Unparsable)
			for _, w := range r.words {
				if strings.EqualFold(w, text) {
					p.Nearest = w
				}
			}
			return p
		}
	}
	return nil
}

// adjust does what the setters of these keys do to a number.
func adjust(key string, n int64) int64 {
	switch key {
	case "haListenPort":
		return max(n, 0)
	case "timerPrecisionMs":
		for _, p := range []int64{1000, 500, 200} {
			if n >= p {
				return p
			}
		}
		return 100
	}
	return n
}

func (s *Set) at(key string) (*row, value) {
	i, ok := s.index[key]
	if !ok {
		panic("settings: no key " + key)
	}
	return s.rows[i], s.state.Load().values[i]
}

// String returns a value as text, "" when it is unset; of folders below
// storePathRootDir the effective one. A key outside the Set's classes panics,
// here and in the other readers: it is a programming error.
func (s *Set) String(key string) string {
	_, v := s.at(key)
	if v.null {
		if sub, ok := below[key]; ok {
			return filepath.Join(s.String("storePathRootDir"), sub)
		}
		return ""
	}
	if n, ok := s.derived(key, v.whole); ok {
		return strconv.FormatInt(n, 10)
	}
	return v.text
}

// below are the folders and files that follow the store root while unset.
var below = map[string]string{
	"storePathCommitLog":      "commitlog",
	"storePathEpochFile":      "epochFileCheckpoint",
	"storePathBrokerIdentity": "brokerIdentity",
}

// Int64 returns a whole number.
func (s *Set) Int64(key string) int64 {
	r, v := s.at(key)
	if r.kind != kindInt && r.kind != kindLong {
		panic("settings: " + key + " is not a whole number")
	}
	if n, ok := s.derived(key, v.whole); ok {
		return n
	}
	return v.whole
}

// derived is the effective value of numbers that Java computes when it reads them.
func (s *Set) derived(key string, n int64) (int64, bool) {
	switch key {
	case "haListenPort":
		if n == 0 && s.Has("listenPort") {
			return s.Int64("listenPort") + 1, true
		}
	case "diskMaxUsedSpaceRatio":
		return min(max(n, 10), 95), true
	case "mappedFileSizeConsumeQueue":
		return (n + 19) / 20 * 20, true
	}
	return 0, false
}

// Int is Int64 for keys of type int.
func (s *Set) Int(key string) int { return int(s.Int64(key)) }

// Float returns a decimal number; it takes whole ones too.
func (s *Set) Float(key string) float64 {
	r, v := s.at(key)
	switch r.kind {
	case kindInt, kindLong:
		return float64(s.Int64(key))
	case kindDouble:
		return v.frac
	}
	panic("settings: " + key + " is not a number")
}

// Bool returns a truth value.
func (s *Set) Bool(key string) bool {
	r, v := s.at(key)
	if r.Type != "boolean" {
		panic("settings: " + key + " is not a boolean")
	}
	return v.truth
}

// Duration returns a number of milliseconds as a duration.
func (s *Set) Duration(key string) time.Duration { return s.DurationIn(key, time.Millisecond) }

// DurationIn returns a number of units as a duration, of 146 years at most: users of Java write very large numbers for
// "never", which must not turn into no time at all. Times can be reckoned with what is returned.
func (s *Set) DurationIn(key string, unit time.Duration) time.Duration {
	const longest = 1 << 62
	n, most := s.Int64(key), int64(longest/unit)
	return time.Duration(min(max(n, -most), most)) * unit
}

// Version grows with every Load and Put: whoever keeps a value beside can see
// that it is time to read it again.
func (s *Set) Version() uint64 { return s.state.Load().version }

// Changed returns the keys that Load or Put have set, unknown ones included,
// in alphabetical order.
func (s *Set) Changed() []string {
	st := s.state.Load()
	var keys []string
	for i, v := range st.values {
		if v.set {
			keys = append(keys, s.rows[i].Name)
		}
	}
	for k := range st.unknown {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// All lists keys and values in alphabetical order, as GET_BROKER_CONFIG does:
// those of these classes (of all without arguments), and whatever else Load or
// Put have set. Unset ones (null) are left out, as in Java.
func (s *Set) All(classes ...string) []properties.Pair {
	st := s.state.Load()
	var pairs []properties.Pair
	for i, v := range st.values {
		r := s.rows[i]
		if v.null {
			continue
		}
		if !v.set && (r.beside || len(classes) > 0 && !r.in(classes)) {
			continue
		}
		text := v.text
		if r.Name == "haListenPort" {
			text = s.String(r.Name) // start-up writes it back in Java
		}
		pairs = append(pairs, properties.Pair{Key: r.Name, Value: text})
	}
	for k, v := range st.unknown {
		pairs = append(pairs, properties.Pair{Key: k, Value: v})
	}
	slices.SortFunc(pairs, func(a, b properties.Pair) int { return strings.Compare(a.Key, b.Key) })
	return pairs
}

func (r *row) in(classes []string) bool {
	for _, c := range classes {
		if slices.Contains(r.classes, c) {
			return true
		}
	}
	return false
}

// wants describes the values a row takes.
func (r *row) wants() string {
	switch r.kind {
	case kindInt:
		return fmt.Sprintf("a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	case kindLong:
		return "a whole number"
	case kindDouble:
		return "a number"
	case kindBool:
		return "true or false"
	case kindWord:
		return "one of " + strings.Join(r.words, ", ")
	}
	return "text"
}
