package integration

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/gantrymq/gantry"

// layer says what the packages below one folder may import of this module and
// of the world: docs/ARCHITECTURE.md, "Imports go one way".
type layer struct {
	folder string   // the longest matching folder decides
	own    []string // folders of this module
	third  []string // module prefixes
}

var layers = []layer{
	{"codec", []string{"codec"}, []string{"github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "github.com/valyala/bytebufferpool"}},
	{"remoting", []string{"remoting", "codec"}, []string{"go.uber.org/zap", "golang.org/x/sys"}},
	{"remoting/loop", []string{"remoting", "codec"}, []string{"go.uber.org/zap", "golang.org/x/sys", "github.com/panjf2000/gnet/v2"}},
	{"store", []string{"store", "codec"}, []string{"go.uber.org/zap"}},
	{"store/vfs", []string{"store/vfs"}, []string{"golang.org/x/sys"}},
	{"store/segment", []string{"store", "codec"}, []string{"go.uber.org/zap", "golang.org/x/sys"}},
	{"namesrv", []string{"namesrv", "remoting", "store/configfile", "store/vfs", "codec"}, []string{"go.uber.org/zap"}},
	{"broker", []string{"broker", "remoting", "store", "codec"}, []string{"go.uber.org/zap"}},
	{"cmd", []string{"cmd", "broker", "namesrv", "remoting", "store", "codec"}, []string{"go.uber.org/zap", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/HdrHistogram/hdrhistogram-go", "golang.org/x/sys"}},
}

// testOnly are third-party modules that tests of any package may use.
var testOnly = []string{"go.uber.org/goleak", "go.uber.org/zap", "golang.org/x/sys"}

// unruled folders drive Gantry from outside and may import any of it.
var unruled = []string{"integration", "compat"}

func TestTheTree(t *testing.T) {
	root := ".."
	docs := map[string]bool{} // package folder -> has a package comment
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			switch base := path.Base(rel); {
			case rel == ".":
				return nil
			case strings.HasPrefix(base, "."), base == "testdata", base == "bin", base == "data":
				return filepath.SkipDir
			case base == "util", base == "utils", base == "common", base == "helper", base == "helpers", base == "misc":
				t.Errorf("%s: a folder is named after what it does, not %q", rel, base)
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				return filepath.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		checkLength(t, rel, src)
		f, err := parser.ParseFile(token.NewFileSet(), p, src, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		folder := path.Dir(rel)
		if !strings.HasSuffix(rel, "_test.go") {
			docs[folder] = docs[folder] || hasDoc(f)
		}
		checkImports(t, rel, folder, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 10 {
		t.Fatalf("only %d packages seen below %s", len(docs), root)
	}
	for folder, ok := range docs {
		if !ok {
			t.Errorf("%s: no package comment that explains its part to a newcomer", folder)
		}
	}
}

func hasDoc(f *ast.File) bool { return f.Doc != nil && len(f.Doc.Text()) > 60 }

func checkLength(t *testing.T, rel string, src []byte) {
	const most = 800
	n := 0
	for sc := bufio.NewScanner(bytes.NewReader(src)); sc.Scan(); n++ {
	}
	if n > most {
		t.Errorf("%s has %d lines: a file stays at or under %d", rel, n, most)
	}
}

func checkImports(t *testing.T, rel, folder string, f *ast.File) {
	for _, u := range unruled {
		if under(folder, u) {
			return
		}
	}
	rule := ruleFor(folder)
	if rule == nil {
		t.Errorf("%s: no rule for this folder; add it to layers and to docs/ARCHITECTURE.md", rel)
		return
	}
	isTest := strings.HasSuffix(rel, "_test.go")
	for _, spec := range f.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value)
		switch {
		case imp == module || strings.HasPrefix(imp, module+"/"):
			own := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
			if !underAny(own, rule.own) {
				t.Errorf("%s imports %s: %s may import %v", rel, own, rule.folder, rule.own)
			}
		case !strings.Contains(strings.SplitN(imp, "/", 2)[0], "."): // standard library
		case underAny(imp, rule.third), isTest && underAny(imp, testOnly):
		default:
			t.Errorf("%s imports %s: %s may import %v", rel, imp, rule.folder, rule.third)
		}
	}
}

func ruleFor(folder string) (best *layer) {
	for i := range layers {
		if l := &layers[i]; under(folder, l.folder) && (best == nil || len(l.folder) > len(best.folder)) {
			best = l
		}
	}
	return best
}

func underAny(p string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if under(p, prefix) {
			return true
		}
	}
	return false
}

func under(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }
