package namesrv

import (
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/properties"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store/configfile"
)

// live are the settings that are read whenever they matter. A change of any
// other one takes effect with the next start.
var live = map[string]bool{
	"orderMessageEnable":                true,
	"returnOrderTopicConfigToBroker":    true,
	"scanNotActiveBrokerInterval":       true,
	"supportActingMaster":               true,
	"enableAllTopicList":                true,
	"enableTopicList":                   true,
	"notifyMinBrokerIdChanged":          true,
	"needWaitForService":                true,
	"waitSecondsForService":             true,
	"deleteTopicWithBrokerRegistration": true,
}

// getConfig is GET_NAMESRV_CONFIG (319): the settings of the two classes that
// Java lists, and what else was set.
func (s *Server) getConfig(r *remoting.Request) {
	r.Reply(nil, s.configText())
}

func (s *Server) configText() []byte {
	listed := map[string]bool{}
	for _, p := range s.set.All(Classes[:2]...) {
		listed[p.Key] = true
	}
	for _, key := range s.set.Changed() {
		listed[key] = true
	}
	var b []byte
	for _, p := range s.set.All() {
		if listed[p.Key] {
			b = properties.AppendPlain(b, p.Key, p.Value)
		}
	}
	return b
}

// updateConfig is UPDATE_NAMESRV_CONFIG (318). As in Java, a key that does not
// exist and a value that cannot be read are success; here the remark says what
// was not done and what needs a restart.
func (s *Server) updateConfig(r *remoting.Request) {
	if len(r.Cmd.Body) == 0 {
		r.Reply(nil, nil)
		return
	}
	pairs, err := properties.Parse(r.Cmd.Body)
	if err != nil {
		r.Fail(code.SystemError, "string2Properties error")
		return
	}
	for _, p := range pairs {
		if s.black[p.Key] {
			r.Fail(code.NoPermission, "Can not update config in black list.")
			return
		}
	}
	s.config.Lock()
	defer s.config.Unlock()
	var changed []properties.Pair
	var said []string
	for i, p := range pairs {
		if slices.ContainsFunc(pairs[i+1:], func(q properties.Pair) bool { return q.Key == p.Key }) {
			continue // the last one counts
		}
		p.Value = strings.TrimSpace(p.Value)
		if what, ok := unsupported[p.Key]; ok && strings.EqualFold(p.Value, "true") {
			said = append(said, p.Key+"=true: "+what)
			continue
		}
		if !s.set.Has(p.Key) && !slices.Contains(s.set.Changed(), p.Key) {
			said = append(said, strconv.Quote(p.Key)+" is unknown")
			continue
		}
		before := s.value(p.Key)
		problem := s.set.Put(p.Key, p.Value)
		if problem != nil && problem.Kind != settings.Unknown { // one that is listed may be changed
			said = append(said, problem.Text())
			if problem.Kind != settings.ReadAsFalse {
				continue
			}
		} else if before == s.value(p.Key) {
			continue
		} else if !live[p.Key] {
			said = append(said, p.Key+" takes effect with the next start")
		}
		changed = append(changed, p)
	}
	if len(changed) > 0 {
		if err := s.saveConfig(changed); err != nil {
			s.log.Error("changed settings are in force but not saved", zap.Error(err))
			said = append(said, "in force, but not saved: "+err.Error())
		}
	}
	s.log.Info("settings changed", zap.Stringer("remote", r.Conn.Remote()), zap.Any("changed", changed), zap.Strings("said", said))
	r.Respond(code.Success, strings.Join(said, "; "), nil, nil)
}

// value is a setting's text, of one that no class has as well.
func (s *Server) value(key string) string {
	if s.set.Has(key) {
		return s.set.String(key)
	}
	for _, p := range s.set.All() {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

// saveConfig writes the changes into the file the settings came from. Java
// replaces it by a list of all settings; here the rest of it stays as it is.
func (s *Server) saveConfig(changed []properties.Pair) error {
	f := configfile.New(configfile.Options{FS: s.fs, Path: s.set.String("configStorePath"), Now: s.now, Log: s.log})
	var text []byte
	err := f.Load(func(b []byte) error {
		text = b
		return nil
	})
	if err != nil {
		return err
	}
	return f.Save(properties.Edit(text, changed))
}
