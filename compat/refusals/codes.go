package refusals

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// RequestCode is a code that Java's sources name.
type RequestCode struct {
	Code int
	Name string
}

// RequestCodes reads the list of codes.
func RequestCodes() ([]RequestCode, error) {
	text, err := os.ReadFile(filepath.Join(toolchain.Root(), "codec", "code", "requests.tsv"))
	if err != nil {
		return nil, err
	}
	var codes []RequestCode
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		number, name, _ := strings.Cut(line, "\t")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		name, _, _ = strings.Cut(name, "\t")
		codes = append(codes, RequestCode{n, name})
	}
	return codes, nil
}

// Answer is what came back for a request without fields and body.
type Answer struct {
	How    Served
	Code   int // of the answer, if there is one
	Remark string
}

// Served is how a server takes a code.
type Served string

// A request without fields and body has one of these ends.
const (
	Yes    Served = "yes"    // an answer, of whatever code, says that there is a handler
	No     Served = "no"     // code 3: not supported
	Silent Served = "silent" // no answer
	Hangup Served = "closes" // the connection is closed
)

// Sweep sends each code once, without fields and body, to a server that is not needed any more (some codes delete things).
// An answer that has not come after patience does not come.
func Sweep(ctx context.Context, addr string, codes []RequestCode, patience time.Duration) (map[int]Answer, error) {
	const atOnce = 8
	answers := make([]Answer, len(codes))
	errs := make([]error, len(codes))
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, c := range codes {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			conn, err := frames.Dial(ctx, addr)
			if err != nil {
				errs[i] = fmt.Errorf("code %d: %w", c.Code, err)
				return
			}
			defer conn.Close()
			r, err := conn.Call(ctx, conn.New(c.Code, nil, nil))
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				answers[i].How = Silent
			case err != nil:
				answers[i].How = Hangup
			case r.Code == 3:
				answers[i] = Answer{No, r.Code, r.Remark}
			default:
				answers[i] = Answer{Yes, r.Code, r.Remark}
			}
		})
	}
	wait.Wait()
	all := map[int]Answer{}
	for i, c := range codes {
		all[c.Code] = answers[i]
	}
	return all, errors.Join(errs...)
}

// Routed reads the table of request codes of one of Gantry's servers, "broker" or "namesrv", from its source.
func Routed(server string) (map[int]bool, error) {
	table, err := os.ReadFile(filepath.Join(toolchain.Root(), server, "routes.go"))
	if err != nil {
		return nil, err
	}
	constants, err := os.ReadFile(filepath.Join(toolchain.Root(), "codec", "code", "request_gen.go"))
	if err != nil {
		return nil, err
	}
	number := map[string]int{}
	for _, m := range codeConstant.FindAllStringSubmatch(string(constants), -1) {
		if number[m[1]], err = strconv.Atoi(m[2]); err != nil {
			return nil, err
		}
	}
	routed := map[int]bool{}
	for _, m := range codeRow.FindAllStringSubmatch(string(table), -1) {
		n, ok := number[m[1]]
		if !ok {
			return nil, fmt.Errorf("%s/routes.go: code.%s has no number", server, m[1])
		}
		routed[n] = true
	}
	return routed, nil
}

var (
	codeConstant = regexp.MustCompile(`(?m)^\t(\w+)\s+Request = (\d+)$`)
	codeRow      = regexp.MustCompile(`(?m)^\t*\{Code: code\.(\w+),`)
)

// CodeCounts compares the answers to a sweep and renders what came out. A code that Gantry's table does not have must be
// answered with 3 and is listed; each other must have Java's code, or a mark, by row of docs/differences.md.
func CodeCounts(server string, codes []RequestCode, javas, gantrys map[int]Answer, routed map[int]bool, marks map[int]string, fail func(format string, args ...any)) string {
	equal, marked := 0, map[string][]string{}
	var missing []string
	for _, c := range codes {
		theirs, ours := javas[c.Code], gantrys[c.Code]
		same := theirs.How == ours.How && theirs.Code == ours.Code
		switch row := marks[c.Code]; {
		case ours.How == Silent || ours.How == Hangup:
			fail("%s, code %d without fields and body: %s", server, c.Code, ours.How)
		case row != "" && same:
			fail("%s, code %d without fields and body: answered as by Java; take the mark %s away", server, c.Code, row)
		case same:
			equal++
		case !routed[c.Code] && ours.How == No:
			missing = append(missing, fmt.Sprintf("%d %s", c.Code, c.Name))
		case row != "":
			marked[row] = append(marked[row], strconv.Itoa(c.Code))
		default:
			fail("%s, code %d %s without fields and body: Java %v, Gantry %v", server, c.Code, c.Name, theirs, ours)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Each of the %d request codes once, without fields and body, to the %s:\n\n- Answered with the same code: %d.\n", len(codes), server, equal)
	for _, row := range slices.Sorted(maps.Keys(marked)) {
		fmt.Fprintf(&b, "- Otherwise as `%s` says: %s.\n", row, strings.Join(marked[row], ", "))
	}
	if len(missing) > 0 {
		fmt.Fprintf(&b, "- Not built, answered with 3, %d: %s.\n", len(missing), strings.Join(missing, ", "))
	}
	return b.String() + "\n"
}
