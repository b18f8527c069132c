package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"

	"github.com/gantrymq/gantry/codec/properties"
)

// defaultTLSFile is where the Java servers look for TLS properties when nothing else is said.
const defaultTLSFile = "/etc/rocketmq/tls.properties"

// tlsProperties are the -Dtls options, and what the TLS file says, which is stronger.
func tlsProperties(j Java) ([]properties.Pair, error) {
	file, named := j.TLS["tls.config.file"]
	if !named {
		file = defaultTLSFile
	}
	var pairs []properties.Pair
	for k, v := range j.TLS {
		pairs = append(pairs, properties.Pair{Key: k, Value: v})
	}
	sort.Slice(pairs, func(i, k int) bool { return pairs[i].Key < pairs[k].Key })
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return pairs, nil // as in Java
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the TLS properties: %w", err)
	}
	more, err := properties.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, p := range more {
		if strings.HasPrefix(p.Key, "tls.") {
			pairs = append(pairs, p)
		}
	}
	return pairs, nil
}

// tls refuses to run a name server whose operator wants nobody to talk to it in the clear. The broker checks its own
// settings.
func (c *Config) tls() error {
	if c.Namesrv == nil {
		return nil
	}
	for _, p := range c.Namesrv.All() {
		value := strings.ToLower(strings.TrimSpace(p.Value))
		if p.Key == "tls.server.mode" && value == "enforcing" || p.Key == "tls.enable" && value == "true" ||
			p.Key == "tls.server.need.client.auth" && value == "require" || p.Key == "tls.server.authClient" && value == "true" {
			return fmt.Errorf("%s=%s: TLS is not built yet; connections of the name server would not be encrypted", p.Key, p.Value)
		}
	}
	return nil
}
