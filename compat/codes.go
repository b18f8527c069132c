package compat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
func Sweep(ctx context.Context, addr string, codes []RequestCode) (map[int]Served, error) {
	const atOnce, patience = 8, 3 * time.Second
	served := make([]Served, len(codes))
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
				served[i] = Silent
			case err != nil:
				served[i] = Hangup
			case r.Code == 3:
				served[i] = No
			default:
				served[i] = Yes
			}
		})
	}
	wait.Wait()
	all := map[int]Served{}
	for i, c := range codes {
		all[c.Code] = served[i]
	}
	return all, errors.Join(errs...)
}

// CodeTable renders what the servers do with each code that one of Java's serves.
func CodeTable(codes []RequestCode, javaBroker, gantryBroker, javaNamesrv, gantryNamesrv map[int]Served) string {
	var rows strings.Builder
	count := func(theirs, ours map[int]Served) string {
		both, all := 0, 0
		for code, s := range theirs {
			if s == No {
				continue
			}
			all++
			if ours[code] == Yes {
				both++
			}
		}
		return fmt.Sprintf("%d of %d", both, all)
	}
	for _, c := range codes {
		if javaBroker[c.Code] == No && javaNamesrv[c.Code] == No {
			continue
		}
		fmt.Fprintf(&rows, "| %d | %s | %s | %s | %s | %s |\n", c.Code, c.Name, javaBroker[c.Code], gantryBroker[c.Code], javaNamesrv[c.Code], gantryNamesrv[c.Code])
	}
	return fmt.Sprintf(`## Request codes

Each code of Java's list, sent once without fields and body to running servers: "yes" means that somebody handles it (what
exactly comes back is compared by the scripts in compat/frames and by the rows above), "no" that the answer is code 3.
Codes that neither of Java's servers handles are left out. Of the codes that Java's server handles, Gantry's broker
handles %s, its name server %s.

| code | name | Java broker | Gantry broker | Java name server | Gantry name server |
|---|---|---|---|---|---|
%s`, count(javaBroker, gantryBroker), count(javaNamesrv, gantryNamesrv), rows.String())
}
