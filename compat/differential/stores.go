package differential

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/compat/frames"
)

// most is how many differences of two stores are shown.
const most = 20

// Topics of the brokers' own.
const (
	scheduled = "SCHEDULE_TOPIC_XXXX"         // messages with a delay level wait here
	wheel     = "rmq_sys_wheel_timer"         // timed ones
	halves    = "RMQ_SYS_TRANS_HALF_TOPIC"    // half ones
	marks     = "RMQ_SYS_TRANS_OP_HALF_TOPIC" // which of these are done; how many are gathered in one record is the broker's own affair
)

// CompareStores compares what lies on disk, after Stop: every record of the log, the units of the queues, and the tables.
func (b *Brokers) CompareStores() error {
	var stores [2]*stored
	for i, dir := range b.stores() {
		var err error
		if stores[i], err = read(b.sides[i], dir); err != nil {
			return fmt.Errorf("the store of %s: %w", b.sides[i].name, err)
		}
	}
	var diffs []string
	say := func(what string, java, gantry []string) {
		for i := range max(len(java), len(gantry)) {
			j, g := "nothing", "nothing"
			if i < len(java) {
				j = java[i]
			}
			if i < len(gantry) {
				g = gantry[i]
			}
			if j != g {
				diffs = append(diffs, fmt.Sprintf("%s, number %d\n-  %.1500s\n+  %.1500s", what, i, j, g))
				break // what follows is moved
			}
		}
		only := func(sign string, these, those []string) {
			counts := map[string]int{}
			for _, l := range those {
				counts[l]++
			}
			for _, l := range these {
				if counts[l]--; counts[l] < 0 {
					diffs = append(diffs, fmt.Sprintf("only here in %s: %s  %.1500s", what, sign, l))
				}
			}
		}
		only("-", java, gantry)
		only("+", gantry, java)
	}
	say("records in the order of the log", stores[0].direct, stores[1].direct)
	for _, class := range keys(stores[0].later, stores[1].later) {
		say("records of "+class, stores[0].later[class], stores[1].later[class])
	}
	for _, queue := range keys(stores[0].units, stores[1].units) {
		say("units of "+queue, stores[0].units[queue], stores[1].units[queue])
	}
	for _, table := range keys(stores[0].tables, stores[1].tables) {
		say(table, stores[0].tables[table], stores[1].tables[table])
	}
	for _, at := range b.told {
		if j, g := stores[0].side.names[at[0]], stores[1].side.names[at[1]]; j != g {
			diffs = append(diffs, fmt.Sprintf("the same answer names %q in Java's log and %q in Gantry's", j, g))
		}
	}
	if len(diffs) == 0 {
		return nil
	}
	more := ""
	if len(diffs) > most {
		more = fmt.Sprintf("\nand %d more", len(diffs)-most)
	}
	return fmt.Errorf("the stores differ:\n%s%s", strings.Join(diffs[:min(most, len(diffs))], "\n"), more)
}

func keys(a, b map[string][]string) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// stored is a store, with what may differ masked.
type stored struct {
	side   *side
	direct []string            // records that requests have stored, in the order of the log
	later  map[string][]string // records that the broker has stored later, by class
	units  map[string][]string // by queue
	tables map[string][]string // by file and name
}

// class is what records have an order in: a queue, and the way that they came there.
func class(r frames.Record) string {
	c := fmt.Sprintf("%s/%d", r.Topic, r.Queue)
	if w := way(r); w != "" {
		c += " by " + w
	}
	return c
}

func read(s *side, dir string) (*stored, error) {
	st := &stored{side: s, later: map[string][]string{}, units: map[string][]string{}, tables: map[string][]string{}}
	rs, err := readLog(filepath.Join(dir, "commitlog"))
	if err != nil {
		return nil, err
	}
	s.begin("")
	s.names = map[int64]string{}
	counts := map[string]int{}
	// When it stops Java asks once more for all halves that are open, and stores copies of them.
	rs = slices.DeleteFunc(rs, func(r frames.Record) bool {
		return r.Topic == halves && properties(r.Properties)["TRANSACTION_CHECK_TIMES"] != ""
	})
	for _, r := range rs {
		c := class(r)
		s.names[r.Physical] = fmt.Sprintf("%s#%d", c, counts[c])
		counts[c]++
	}
	last := int64(0)
	byPlace := make(map[int64]frames.Record, len(rs))
	for _, later := range []bool{false, true} { // those that name others come later
		for _, r := range rs {
			byPlace[r.Physical] = r
			if (way(r) != "") != later {
				continue
			}
			if r.Topic == marks {
				st.later[marks] = append(st.later[marks], strings.Split(strings.TrimSuffix(string(r.Body), ","), ",")...)
				continue
			}
			s.loose = later
			text := s.record(r)
			s.loose = false
			if later {
				st.later[class(r)] = append(st.later[class(r)], text)
				continue
			}
			st.direct = append(st.direct, text)
			if r.Stored < last {
				return nil, fmt.Errorf("the message at %d was stored earlier than the one before it", r.Physical)
			}
			last = r.Stored
		}
	}
	if err := st.readQueues(filepath.Join(dir, "consumequeue"), byPlace); err != nil {
		return nil, err
	}
	if err := st.readBatches(filepath.Join(dir, "batchconsumequeue"), byPlace); err != nil {
		return nil, err
	}
	return st, st.readTables(filepath.Join(dir, "config"))
}

// readLog reads a log of files up to its end.
func readLog(dir string) (rs []frames.Record, err error) {
	const blank = 0xCBD43194
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	for _, f := range files {
		base, err := strconv.ParseInt(filepath.Base(f), 10, 64)
		if err != nil {
			return nil, err
		}
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for at := 0; at+8 <= len(b); {
			size := int(binary.BigEndian.Uint32(b[at:]))
			if size == 0 || binary.BigEndian.Uint32(b[at+4:]) == blank {
				break
			}
			if size > len(b)-at {
				return rs, fmt.Errorf("%s: a record of %d bytes at %d", f, size, at)
			}
			r, err := frames.Records(b[at : at+size])
			if err != nil {
				return rs, fmt.Errorf("%s: at %d: %w", f, at, err)
			}
			if r[0].Physical != base+int64(at) {
				return rs, fmt.Errorf("%s: the record at %d says that it is at %d", f, base+int64(at), r[0].Physical)
			}
			rs = append(rs, r[0])
			at += size
		}
	}
	return rs, nil
}

// readQueues reads the units of all queues: each names its record, with its size and what queues keep of tags or times.
func (st *stored) readQueues(dir string, records map[int64]frames.Record) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "[0-9]*"))
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		queue := filepath.Base(filepath.Dir(filepath.Dir(f))) + "/" + filepath.Base(filepath.Dir(f))
		if queue == marks+"/0" {
			continue
		}
		for ; len(b) >= 20; b = b[20:] {
			at, size, tags := int64(binary.BigEndian.Uint64(b)), int(int32(binary.BigEndian.Uint32(b[8:]))), int64(binary.BigEndian.Uint64(b[12:]))
			if size == 0 {
				break
			}
			r, ok := records[at]
			if !ok && queue == halves+"/0" {
				continue // see read
			}
			if !ok || r.Size != size {
				return fmt.Errorf("%s: a unit says that a message of %d bytes is at %d", f, size, at)
			}
			text := fmt.Sprintf("%s tags %d", st.side.names[at], tags)
			if r.Topic == scheduled {
				text = fmt.Sprintf("%s due %d ms after it was stored", st.side.names[at], tags-r.Stored)
			}
			st.units[queue] = append(st.units[queue], text)
		}
	}
	for queue, units := range st.units { // several ways may lead into one queue
		if slices.ContainsFunc(units, func(u string) bool { return strings.Contains(u, " by ") }) {
			slices.Sort(units)
		}
		st.units[queue] = units
	}
	return nil
}

// readBatches reads the units of queues of batches, which say more: the time, the first offset, and how many there are.
func (st *stored) readBatches(dir string, records map[int64]frames.Record) error {
	const unit = 46
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "[0-9]*"))
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		queue := filepath.Base(filepath.Dir(filepath.Dir(f))) + "/" + filepath.Base(filepath.Dir(f))
		for ; len(b) >= unit; b = b[unit:] {
			at, size := int64(binary.BigEndian.Uint64(b)), int(int32(binary.BigEndian.Uint32(b[8:])))
			if size == 0 {
				break
			}
			r, ok := records[at]
			if stored := int64(binary.BigEndian.Uint64(b[20:])); !ok || r.Size != size || r.Stored != stored {
				return fmt.Errorf("%s: a unit says that a message of %d bytes, stored at %d, is at %d", f, size, stored, at)
			}
			st.units[queue] = append(st.units[queue], fmt.Sprintf("%s tags %d first %d count %d rest %x", st.side.names[at], int64(binary.BigEndian.Uint64(b[12:])),
				int64(binary.BigEndian.Uint64(b[28:])), binary.BigEndian.Uint16(b[36:]), b[38:unit]))
		}
	}
	return nil
}

// tables are the parts of the files that are compared. Topics and groups of the brokers' own are in the unit tests.
var tables = map[string][]string{
	"topics.json":            {"topicConfigTable"},
	"subscriptionGroup.json": {"subscriptionGroupTable", "forbiddenTable"},
	"consumerOffset.json":    {"offsetTable", "pullOffsetTable", "resetOffsetTable"},
	"delayOffset.json":       {"offsetTable"},
}

func (st *stored) readTables(dir string) error {
	for file, names := range tables {
		b, err := os.ReadFile(filepath.Join(dir, file))
		switch {
		case errors.Is(err, fs.ErrNotExist): // nothing has been stored in it
			continue
		case err != nil:
			return err
		}
		strict, err := fastjson.Normalize(b)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var v map[string]map[string]any
		if err := json.Unmarshal(strict, &v); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, name := range names {
			var lines []string
			for k, entry := range v[name] {
				if name == "pullOffsetTable" {
					if topic, _, _ := strings.Cut(k, "@"); st.side.deleted[topic] {
						continue // see own
					}
				}
				if strings.Contains(k, "CID_RMQ_SYS_") {
					continue // how far the marks have been read
				}
				text, err := json.Marshal(entry)
				if err != nil {
					return err
				}
				lines = append(lines, k+" "+string(text))
			}
			sort.Strings(lines)
			st.tables[file+" "+name] = lines
		}
	}
	return nil
}
