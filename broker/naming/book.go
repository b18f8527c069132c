package naming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
)

// book finds the addresses of the name servers: the list is that of namesrvAddr, else, with
// fetchNamesrvAddrByAddressServer, what an address server says, and each name in it stands for all its addresses. What
// cannot be found out now is as it was found last. Only the registrar's watch uses it.
type book struct {
	o    *Options
	http *http.Client

	said       string               // by the address server, last
	found      map[string][]string  // addresses by "host:port", as found last
	complained map[string]time.Time // by what failed
}

func newBook(o *Options) *book {
	return &book{o: o, found: map[string][]string{}, complained: map[string]time.Time{}, http: &http.Client{
		Timeout: 2 * patience,
		// Java looks at no proxy settings either.
		Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: patience}).DialContext, ResponseHeaderTimeout: patience, DisableKeepAlives: true},
	}}
}

// look returns the addresses, sorted, and whether all could be found out. While names are being looked up the others are
// given to early.
func (b *book) look(ctx context.Context, early func(addrs []string)) (addrs []string, whole bool) {
	whole = true
	text := b.o.Settings.String("namesrvAddr")
	if b.asksServer() {
		said, err := b.fetch(ctx)
		switch {
		case err != nil:
			whole = false
			b.complain(ctx, "address server", err)
		case said != b.said:
			b.o.Log.Info("the address server names other name servers", zap.String("old", b.said), zap.String("new", said))
			b.said = said
		}
		text = b.said
	}
	names := map[string][2]string{} // host and port by both
	for entry := range strings.SplitSeq(text, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		host, port := split(entry)
		at := net.JoinHostPort(host, port)
		if _, err := netip.ParseAddr(host); err == nil {
			addrs = append(addrs, at)
			continue
		}
		names[at] = [2]string{host, port}
	}
	if len(names) > 0 && len(addrs) > 0 {
		early(addrs)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for at, name := range names {
		wg.Go(func() {
			list, err := b.resolve(ctx, name[0], name[1])
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				b.found[at] = list
				return
			}
			whole = false
			b.complain(ctx, at, err)
			if len(b.found[at]) == 0 {
				b.found[at] = []string{at} // whoever dials it may have more luck
			}
		})
	}
	wg.Wait()
	maps.DeleteFunc(b.found, func(at string, _ []string) bool {
		_, named := names[at]
		return !named
	})
	for _, list := range b.found {
		addrs = append(addrs, list...)
	}
	slices.Sort(addrs)
	return slices.Compact(addrs), whole
}

// asksServer says that the list comes from an address server.
func (b *book) asksServer() bool {
	return strings.TrimSpace(b.o.Settings.String("namesrvAddr")) == "" && b.o.Settings.Bool("fetchNamesrvAddrByAddressServer")
}

// period is how often to look.
func (b *book) period() time.Duration {
	period := b.o.Settings.Duration("updateNameServerAddrPeriod")
	if b.asksServer() {
		period = b.o.Settings.Duration("fetchNamesrvAddrInterval")
	}
	if period <= 0 {
		period = 2 * time.Minute
	}
	return period
}

// resolve finds the addresses of a name. With fetchNameSrvAddrByDnsLookup they are all there are, as in Java; otherwise
// those of IPv4 if there are any, since a machine's name often has an IPv6 address that its servers do not listen on.
func (b *book) resolve(ctx context.Context, host, port string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	hosts, err := b.o.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	v4 := slices.ContainsFunc(hosts, isIPv4)
	var list []string
	for _, h := range hosts {
		if isIPv4(h) || !v4 || b.o.Settings.Bool("fetchNameSrvAddrByDnsLookup") {
			list = append(list, net.JoinHostPort(h, port))
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the name has no address")
	}
	return list, nil
}

func isIPv4(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().Is4()
}

// serverURL is where Java's MixAll.getWSAddr looks: the domain's port is 8080 unless it names one.
func (b *book) serverURL() string {
	domain := strings.TrimSpace(b.o.Settings.String("rmqAddressServerDomain"))
	if strings.IndexByte(domain, ':') <= 0 {
		domain += ":8080"
	}
	return "http://" + domain + "/rocketmq/" + strings.TrimSpace(b.o.Settings.String("rmqAddressServerSubGroup"))
}

// longestList bounds what an address server may say.
const longestList = 64 << 10

// fetch asks the address server. Of its answer the first line counts.
func (b *book) fetch(ctx context.Context) (string, error) {
	url := b.serverURL()
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	rq.Header.Set("Client-Version", code.Current.String())
	rq.Header.Set("Content-Type", "application/x-www-form-urlencoded;charset=UTF-8")
	rq.Header.Set("Metaq-Client-RequestTS", strconv.FormatInt(time.Now().UnixMilli(), 10))
	answer, err := b.http.Do(rq)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestList))
	if err != nil {
		return "", fmt.Errorf("%s: %w", url, err)
	}
	said := strings.TrimSpace(string(text))
	if i := strings.IndexAny(said, "\r\n"); i >= 0 {
		said = said[:i]
	} else if len(text) == longestList { // its last address may be half of one
		return "", fmt.Errorf("%s: the list has %d bytes or more", url, longestList)
	}
	if said == "" {
		return "", fmt.Errorf("%s: the answer is empty", url)
	}
	return said, nil
}

// complain logs what cannot be found out, each at most once a minute.
func (b *book) complain(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	if now := time.Now(); now.Sub(b.complained[what]) >= time.Minute {
		b.complained[what] = now
		b.o.Log.Warn("name servers cannot be looked up; the known ones are kept", zap.String("what", what), zap.Error(err))
	}
}

// split takes an address apart at its last colon; an IPv6 host may have brackets
// or not.
func split(addr string) (host, port string) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 || strings.HasSuffix(addr, "]") {
		return strings.Trim(addr, "[]"), "9876"
	}
	return strings.Trim(addr[:i], "[]"), addr[i+1:]
}
