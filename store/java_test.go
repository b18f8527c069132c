package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/checkpoint"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
)

// java is Java's broker 5.5.0 with its clients, see testdata/exchange.
type java struct {
	lib     string // folder of jars
	classes string
	home    string
}

func needJava(t *testing.T) *java {
	t.Helper()
	lib := os.Getenv("GANTRY_JAVA_LIB")
	if lib == "" {
		t.Skip("GANTRY_JAVA_LIB is not set: the folder with the jars of rocketmq-broker, -namesrv, -client and -tools 5.5.0 and all they need")
	}
	for _, tool := range []string{"java", "javac"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s in PATH", tool)
		}
	}
	j := &java{lib: filepath.Join(lib, "*"), classes: t.TempDir(), home: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(j.home, "conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("javac", "-nowarn", "-cp", j.lib, "-d", j.classes, "testdata/exchange/Exchange.java").CombinedOutput()
	if err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return j
}

func (j *java) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "java", append([]string{"-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Duser.home=" + j.home, "-Drocketmq.home.dir=" + j.home, "-cp", j.classes + string(os.PathListSeparator) + j.lib}, args...)...)
	cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+j.home)
	return cmd
}

// freePorts returns a port whose neighbours -2 and +1 are free, and another.
// They lie below those that the system gives to clients, which may be in use
// up in the thousands for a minute after they were closed.
func freePorts(t *testing.T) (broker, namesrv int) {
	t.Helper()
	for range 200 {
		at := 12_000 + rand.IntN(18_000)
		free := true
		for _, port := range []int{at - 2, at, at + 1, at + 3} {
			l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
			if err != nil {
				free = false
				break
			}
			l.Close()
		}
		if free {
			return at, at + 3
		}
	}
	t.Fatal("no free ports")
	return 0, 0
}

// exchange is a running Exchange program.
type exchange struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (j *java) start(t *testing.T, mode, store string) *exchange {
	t.Helper()
	port, ns := freePorts(t)
	x := &exchange{t: t, cmd: j.command(t, "Exchange", mode, store, fmt.Sprint(port), fmt.Sprint(ns))}
	var err error
	if x.in, err = x.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	x.cmd.Stderr = os.Stderr
	x.out = bufio.NewScanner(out)
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x.until("READY")
	return x
}

// until reads lines up to one that says word, and returns those before.
func (x *exchange) until(word string) (lines []string) {
	x.t.Helper()
	for x.out.Scan() {
		if x.out.Text() == word {
			return lines
		}
		lines = append(lines, x.out.Text())
	}
	x.t.Fatalf("Java ended without %s: %v\n%s", word, x.cmd.Wait(), strings.Join(lines, "\n"))
	return nil
}

func (x *exchange) ask(line string) []string {
	x.t.Helper()
	fmt.Fprintln(x.in, line)
	return x.until("end")
}

func (x *exchange) stop() {
	x.t.Helper()
	fmt.Fprintln(x.in)
	x.until("DONE")
	x.cmd.Wait()
}

func copyStore(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func javaOptions(t testing.TB, root string) Options {
	return Options{
		Root: root, QueueFileSize: 100 * consumequeue.UnitSize, IndexSlots: 1000, IndexEntries: 1500,
		CommitLog: commitlog.Options{SegmentSize: 256 << 10},
		Log:       zaptest.NewLogger(t, zaptest.Level(zapcore.WarnLevel)),
	}
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.RemoveAll(n); err != nil {
			t.Fatal(err)
		}
	}
}

// sameFiles compares two folders byte by byte; index files by their order, as
// their names are times.
func sameFiles(t *testing.T, what, a, b string, byOrder bool) {
	t.Helper()
	files := func(dir string) (names []string) {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(dir, p)
				names = append(names, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return names
	}
	as, bs := files(a), files(b)
	if len(as) != len(bs) || !byOrder && !slices.Equal(as, bs) {
		t.Fatalf("%s: files %v and %v", what, as, bs)
	}
	for i := range as {
		x, err1 := os.ReadFile(filepath.Join(a, as[i]))
		y, err2 := os.ReadFile(filepath.Join(b, bs[i]))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x, y) {
			at := 0
			for at < min(len(x), len(y)) && x[at] == y[at] {
				at++
			}
			t.Errorf("%s: %s (%d bytes) and %s (%d) differ from byte %d on:\n%x\n%x", what, as[i], len(x), bs[i], len(y), at,
				x[at:min(len(x), at+40)], y[at:min(len(y), at+40)])
		}
	}
	t.Logf("%s: %d equal files", what, len(as))
}

// logOf reads all records of a stopped store; the records own their bytes.
func logOf(t *testing.T, root string) (list []message.Record) {
	t.Helper()
	l, err := commitlog.Open(vfs.OS{}, commitlog.Options{Dir: filepath.Join(root, "commitlog"), SegmentSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := l.Walk(l.Min(), commitlog.ToEnd, message.CRC)
	defer w.Close()
	for w.Next() {
		r, err := message.Decode(bytes.Clone(w.Bytes()), message.CRC)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// lines is what Java must print for the queues of a topic.
func lines(t *testing.T, log []message.Record, topic string) (list []string) {
	t.Helper()
	for id := range int32(16) {
		for _, r := range log {
			if string(r.Topic) != topic || r.QueueID != id || !message.HasQueueOffset(r.SysFlag) {
				continue
			}
			start := string(r.Body)
			if i := strings.IndexByte(start[2:], '-'); i >= 0 {
				start = start[:2+i]
			}
			list = append(list, fmt.Sprintf("msg %d %d %d %s", id, r.QueueOffset, len(r.Body), start))
		}
	}
	return list
}

// TestExchangeWithJava lets Java's broker write a store and this one go on with
// it, and the other way round.
func TestExchangeWithJava(t *testing.T) {
	j := needJava(t)
	root := filepath.Join(t.TempDir(), "store")
	x := j.start(t, "write", root)

	// Java has the lock: nothing may be touched.
	before, _ := os.ReadFile(filepath.Join(root, "abort"))
	if _, err := Open(javaOptions(t, root)); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("a store that Java uses: %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(root, "abort")); len(before) == 0 || !bytes.Equal(after, before) {
		t.Fatalf("abort was %q and is %q", before, after)
	}
	if _, err := os.Stat(filepath.Join(root, "gantry")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a refused start has left its folder: %v", err)
	}
	x.stop()
	log := logOf(t, root)
	t.Logf("Java wrote %d records", len(log))

	t.Run("rebuilt", func(t *testing.T) { // queues and index from Java's log
		copied := copyStore(t, root)
		remove(t, filepath.Join(copied, "consumequeue"), filepath.Join(copied, "index"))
		write(t, vfs.OS{}, filepath.Join(copied, "abort"), 0, []byte("1"))
		mustClose(t, mustOpen(t, javaOptions(t, copied)))
		sameFiles(t, "consume queues", filepath.Join(root, "consumequeue"), filepath.Join(copied, "consumequeue"), false)
		sameFiles(t, "index", filepath.Join(root, "index"), filepath.Join(copied, "index"), true)
		sameFiles(t, "commit log", filepath.Join(root, "commitlog"), filepath.Join(copied, "commitlog"), false)
	})
	t.Run("replayed", func(t *testing.T) { // the same messages at the same times
		again := filepath.Join(t.TempDir(), "store")
		replay(t, log, again)
		sameFiles(t, "commit log", filepath.Join(root, "commitlog"), filepath.Join(again, "commitlog"), false)
		sameFiles(t, "consume queues", filepath.Join(root, "consumequeue"), filepath.Join(again, "consumequeue"), false)
		sameFiles(t, "index", filepath.Join(root, "index"), filepath.Join(again, "index"), true)
		fields := func(root string) checkpoint.Fields {
			b, err := os.ReadFile(filepath.Join(root, "checkpoint"))
			if err != nil || len(b) != checkpoint.Size {
				t.Fatal(len(b), err)
			}
			return checkpoint.Decode(b)
		}
		a, b := fields(root), fields(again)
		a.Confirm, b.Confirm = 0, 0 // set by the next start
		// Java raises it in thorough flushes only, and not at the stop.
		if a.LogTime > b.LogTime {
			t.Errorf("log time of Java %d, ours %d", a.LogTime, b.LogTime)
		}
		a.LogTime, b.LogTime = 0, 0
		if a != b {
			t.Errorf("checkpoint of Java %+v, ours %+v", a, b)
		}
	})

	// On with Java's store.
	s := mustOpen(t, javaOptions(t, root))
	s.Start()
	for id := range int32(4) {
		var want []string
		for _, r := range log {
			if string(r.Topic) == "Exchange" && r.QueueID == id && message.HasQueueOffset(r.SysFlag) {
				want = append(want, string(r.Body))
			}
		}
		wantBodies(t, s, "Exchange", id, want)
	}
	for n := range 700 {
		body := fmt.Sprintf("G-%d-%s", n, strings.Repeat("g", n*31%900))
		send(t, s, msg{"Exchange", int32(n % 4), body, fmt.Sprintf("UNIQ_KEY=G%032d;KEYS=g%d all;TAGS=TagG", n, n), 0})
	}
	settle(t, s)
	s.Tick(time.Now())
	killed := copyStore(t, root)
	mustClose(t, s)
	log = logOf(t, root)
	want := lines(t, log, "Exchange")

	serve := func(t *testing.T, root string, keys bool) {
		x := j.start(t, "serve", root)
		if got := x.ask("Exchange 4"); !slices.Equal(got, want) {
			t.Errorf("Java serves %d messages, want %d; first difference: %s", len(got), len(want), firstDifference(got, want))
		}
		for topic, queues := range map[string]int{"SCHEDULE_TOPIC_XXXX": 18, "RMQ_SYS_TRANS_HALF_TOPIC": 1} {
			if got, want := x.ask(fmt.Sprintf("%s %d", topic, queues)), lines(t, log, topic); len(got) < len(want) {
				t.Errorf("%s: %d messages, want %d", topic, len(got), len(want))
			}
		}
		if keys {
			for _, key := range []string{"k7", "k799", "k2001", "g0", "g699"} {
				if got := x.ask("key Exchange " + key); len(got) != 1 || !strings.HasPrefix(got[0], "found "+key) {
					t.Errorf("key %s: %q", key, got)
				}
			}
		}
		x.stop()
	}
	t.Run("stopped", func(t *testing.T) { serve(t, root, true) })
	t.Run("killed", func(t *testing.T) { serve(t, killed, false) }) // Java deletes the newest index file then

	// And back again.
	for _, root := range []string{root, killed} {
		s := mustOpen(t, javaOptions(t, root))
		for id := range int32(4) {
			if got := len(bodies(t, s, "Exchange", id)); got == 0 || int64(got) != s.Queue("Exchange", id).Max() {
				t.Errorf("queue %d has %d messages", id, got)
			}
		}
		mustClose(t, s)
		if got := lines(t, logOf(t, root), "Exchange"); !slices.Equal(got, want) {
			t.Errorf("after Java: %s", firstDifference(got, want))
		}
	}
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("line %d is %q, want %q", i, got[i], want[i])
		}
	}
	return "the length"
}

// replay appends the messages of a log to a new store, at the times at which
// they were stored there.
func replay(t *testing.T, log []message.Record, root string) {
	t.Helper()
	c := newClock()
	o := javaOptions(t, root)
	o.Now, o.noKeeper = c.now, true
	s := mustOpen(t, o)
	s.Start()
	for i := 0; i < len(log); {
		r := log[i]
		d := &Draft{Done: make(done, 1)}
		if message.HasQueueOffset(r.SysFlag) {
			d.Counter = &s.Queue(string(r.Topic), r.QueueID).Counter
		}
		batch, _ := message.Get(r.Properties, "BATCH")
		for first := i; i < len(log); i++ { // the messages of a batch stay together
			b, _ := message.Get(log[i].Properties, "BATCH")
			if i > first && (batch == nil || string(b) != string(batch)) {
				break
			}
			rec := log[i]
			rec.QueueOffset, rec.PhysicalOffset, rec.StoreTimestamp = 0, 0, 0
			d.Records = message.Append(d.Records, &rec)
			d.Count++
		}
		c.add(time.UnixMilli(r.StoreTimestamp).Sub(c.now()))
		s.Append([]*Draft{d})
		if <-d.Done.(done); d.Status != OK || d.PhysicalOffset != r.PhysicalOffset || d.QueueOffset != r.QueueOffset || d.StoreTimestamp != r.StoreTimestamp {
			t.Fatalf("record %d: %s %v, %+v", i, d.Status, d.Err, d)
		}
		settle(t, s) // so that the index files begin at the same records
	}
	mustClose(t, s)
}

// A Java broker that is started on a store in use notices the lock after it has
// recovered the store in its way: it deletes the newest index file, the
// pre-created log file and abort. Nothing acknowledged may be lost by that.
func TestJavaStartedOnAStoreInUse(t *testing.T) {
	j := needJava(t)
	root := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, javaOptions(t, root))
	s.Start()
	var want [4][]string
	add := func(from, to int) {
		t.Helper()
		for n := from; n < to; n++ {
			body := fmt.Sprintf("G-%d-%s", n, strings.Repeat("g", n*31%900))
			send(t, s, msg{"Exchange", int32(n % 4), body, fmt.Sprintf("UNIQ_KEY=G%032d;TAGS=TagG", n), 0})
			want[n%4] = append(want[n%4], body)
		}
		settle(t, s)
	}
	add(0, 1000)
	s.Tick(time.Now())

	port, ns := freePorts(t)
	conf := filepath.Join(t.TempDir(), "broker.conf")
	text := fmt.Sprintf("brokerName=broker-a\nbrokerClusterName=DefaultCluster\nnamesrvAddr=127.0.0.1:%d\nbrokerIP1=127.0.0.1\nlistenPort=%d\n"+
		"storePathRootDir=%s\nmappedFileSizeCommitLog=262144\nmappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=1000\nmaxIndexNum=1500\ntimerWheelEnable=false\n", ns, port, root)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := j.command(t, "org.apache.rocketmq.broker.BrokerStartup", "-c", conf).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("Lock failed")) {
		t.Fatalf("Java on a store in use: %v\n%s", err, out)
	}
	for _, name := range []string{"abort", "commitlog", "index"} {
		infos, _ := os.ReadDir(filepath.Join(root, name))
		_, err := os.Stat(filepath.Join(root, name))
		t.Logf("after Java, %s: %v %v", name, err, infos)
	}

	add(1000, 3000) // over several log and index files
	for id := range want {
		wantBodies(t, s, "Exchange", int32(id), want[id])
	}
	s.Tick(time.Now())
	killed := copyStore(t, root)
	mustClose(t, s)
	for _, root := range []string{root, killed} {
		s := mustOpen(t, javaOptions(t, root))
		s.Start()
		for id := range want {
			wantBodies(t, s, "Exchange", int32(id), want[id])
		}
		missing := 0
		for n := range 3000 {
			r, err := s.Index().Query("Exchange", fmt.Sprintf("G%032d", n), false, 0, 1<<62, 8)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Offsets) == 0 {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("%d keys are not found", missing)
		}
		mustClose(t, s)
	}
}
