package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gantrymq/gantry/broker"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/properties"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/namesrv"
	"github.com/gantrymq/gantry/remoting/client"
)

// Servers says which servers a process runs.
type Servers struct{ Broker, Namesrv bool }

// Source is what the command line says.
type Source struct {
	File    string   // -c, "" for none
	Namesrv string   // -n, addresses separated by semicolons
	Store   string   // --store, the root of everything on disk
	Bind    string   // --bind, a host
	Set     []string // --set, each "key=value"
	Strict  bool     // settings that cannot be used are errors

	Getenv func(string) string // os.Getenv
}

// Config is the outcome.
type Config struct {
	Broker   *settings.Set // nil when the process has no broker
	Namesrv  *settings.Set // nil when it has no name server
	Warnings []string      // for the log
	Java     Java
	home     string // Java's user.home
}

// LogFolder is where the Java servers log to.
func (c *Config) LogFolder() string {
	dir := filepath.Join(c.home, "logs", "rocketmqlogs")
	if c.Broker != nil && c.Broker.Bool("isolateLogEnable") {
		dir = filepath.Join(dir, c.Broker.String("brokerName")+"_"+c.Broker.String("brokerId"))
	}
	return dir
}

// Serialize is how headers are written: frame.JSON, or frame.Binary with ROCKETMQ_SERIALIZE_TYPE=ROCKETMQ.
func (c *Config) Serialize() byte {
	if strings.EqualFold(c.Java.Serialize, "ROCKETMQ") {
		return frame.Binary
	}
	return frame.JSON
}

// Load reads the file and puts everything together. Its error is for the user: one line for each thing that is wrong.
func (s *Source) Load(run Servers) (*Config, error) {
	c := &Config{Java: ParseJava(s.Getenv)}
	host := settings.ThisHost()
	if c.Java.Home != "" {
		host.Home = c.Java.Home
	}
	c.home = host.Home
	if run.Broker {
		c.Broker = settings.NewOn(host, broker.Classes...)
	}
	if run.Namesrv {
		c.Namesrv = settings.NewOn(host, namesrv.Classes...)
	}
	if s.Store != "" {
		dir, err := filepath.Abs(s.Store)
		if err != nil {
			return nil, fmt.Errorf("--store %s: %w", s.Store, err)
		}
		s.Store = dir
	}
	if err := c.environment(s); err != nil {
		return nil, err
	}
	problems, err := c.file(s)
	if err != nil {
		return nil, err
	}
	c.flags(s)
	more, err := c.single(s.Set)
	if err != nil {
		return nil, err
	}
	problems = append(problems, more...)

	var refused []error
	for _, p := range problems {
		text := p.Text()
		if p.file {
			text = s.File + ": " + text
		}
		if s.Strict {
			text = "--strict: " + text
		}
		if s.Strict || p.Kind == settings.Malformed {
			refused = append(refused, errors.New(text))
			continue
		}
		c.Warnings = append(c.Warnings, text)
	}
	if len(c.Java.Ignored) > 0 {
		c.Warnings = append(c.Warnings, "JVM options are ignored, there is no JVM: "+strings.Join(c.Java.Ignored, " "))
	}
	if err := errors.Join(refused...); err != nil {
		return nil, err
	}
	return c, errors.Join(c.tls(), checkAddresses(c.Broker))
}

type problem struct {
	settings.Problem
	file bool // found in the -c file
}

// environment applies what is weaker than the file.
func (c *Config) environment(s *Source) error {
	namesrv := c.Java.Namesrv
	if namesrv == "" {
		namesrv = s.Getenv("NAMESRV_ADDR")
	}
	home := c.Java.RocketMQHome
	if home == "" {
		home = s.Getenv("ROCKETMQ_HOME")
	}
	if c.Java.Serialize == "" {
		c.Java.Serialize = s.Getenv("ROCKETMQ_SERIALIZE_TYPE")
	}
	tls, err := tlsProperties(c.Java)
	if err != nil {
		return err
	}
	for _, set := range c.sets() {
		if home != "" {
			set.Put("rocketmqHome", home)
		}
		for _, p := range tls {
			set.Put(p.Key, p.Value) // no class has them: kept for the check of what is not built
		}
	}
	if c.Broker != nil && namesrv != "" {
		c.Broker.Put("namesrvAddr", namesrv)
	}
	if c.Broker != nil {
		for k, v := range c.Java.Broker {
			if bad := c.Broker.Put(k, v); bad != nil {
				c.Warnings = append(c.Warnings, bad.Text())
			}
		}
	}
	if c.Namesrv != nil && s.Store != "" {
		c.Namesrv.Put("kvConfigPath", filepath.Join(s.Store, "namesrv", "kvConfig.json"))
		c.Namesrv.Put("configStorePath", filepath.Join(s.Store, "namesrv", "namesrv.properties"))
	}
	return nil
}

func (c *Config) sets() []*settings.Set {
	return slices.DeleteFunc([]*settings.Set{c.Namesrv, c.Broker}, func(s *settings.Set) bool { return s == nil })
}

// file applies the -c file.
func (c *Config) file(s *Source) ([]problem, error) {
	if s.File == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.File)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration file: %w", err)
	}
	main := c.Broker
	if main == nil {
		main = c.Namesrv
	}
	var problems []problem
	for _, p := range main.Load(text) {
		if !c.namesrvOnly(p.Key) {
			problems = append(problems, problem{p, true})
		}
	}
	// Requests 25 and 318 write changed settings back to the file they came from.
	path, err := filepath.Abs(s.File)
	if err != nil {
		return nil, err
	}
	if c.Broker == nil {
		main.Put("configStorePath", path)
		return problems, nil
	}
	if main.String("brokerConfigPath") == "" {
		main.Put("brokerConfigPath", path)
	}
	pairs, _ := properties.Parse(text) // Load has reported its error
	for _, p := range pairs {
		if c.namesrvOnly(p.Key) {
			if bad := c.Namesrv.Put(p.Key, p.Value); bad != nil {
				bad.Line = p.Line
				problems = append(problems, problem{*bad, true})
			}
		}
	}
	return problems, nil
}

// namesrvOnly reports whether a key belongs to the name server of a process that has both servers.
func (c *Config) namesrvOnly(key string) bool {
	return c.Namesrv != nil && c.Broker != nil && c.Namesrv.Has(key) && !c.Broker.Has(key)
}

func (c *Config) flags(s *Source) {
	for _, set := range c.sets() {
		if s.Bind != "" {
			set.Put("bindAddress", s.Bind)
		}
	}
	if c.Broker == nil {
		return
	}
	// A broker that listens on one address only cannot be reached under another.
	for _, key := range []string{"brokerIP1", "brokerIP2"} {
		if ip, err := message.ParseHost(s.Bind); err == nil && !ip.IsUnspecified() && !slices.Contains(c.Broker.Changed(), key) {
			c.Broker.Put(key, s.Bind)
		}
	}
	if s.Store != "" {
		c.Broker.Put("storePathRootDir", s.Store)
	}
	if s.Namesrv != "" {
		c.Broker.Put("namesrvAddr", s.Namesrv)
	}
}

func (c *Config) single(list []string) ([]problem, error) {
	var problems []problem
	for _, item := range list {
		key, value, ok := strings.Cut(item, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("--set %q: want key=value", item)
		}
		set := c.Broker
		if set == nil || c.namesrvOnly(key) {
			set = c.Namesrv
		}
		if p := set.Put(key, value); p != nil {
			problems = append(problems, problem{Problem: *p})
		}
	}
	return problems, nil
}

// checkAddresses refuses name server addresses that nobody could dial.
func checkAddresses(set *settings.Set) error {
	if set == nil {
		return nil
	}
	list := set.String("namesrvAddr")
	for _, addr := range strings.Split(list, ";") {
		if addr = strings.TrimSpace(addr); addr == "" {
			continue
		}
		host, port, err := client.SplitAddress(addr)
		if n, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
			return fmt.Errorf("the name server address %q of %q is not host:port; several are separated by semicolons, as in 127.0.0.1:9876;192.168.0.1:9876", addr, list)
		}
	}
	return nil
}
