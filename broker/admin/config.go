package admin

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/properties"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store/configfile"
)

// live are the settings that the packages of broker state read whenever they need
// them. Options.Live adds those of others.
var live = map[string]bool{
	"autoCreateTopicEnable": true, "autoCreateSubscriptionGroup": true, "enableCreateSysGroup": true,
	"validateSystemTopicWhenUpdateTopic": true, "clearRetryTopicWhenDeleteTopic": true, "autoDeleteUnusedStats": true, "enableMixedMessageType": true, "enableSplitMetadata": true,
	"splitMetadataSize": true, "brokerPermission": true, "configBlackList": true,
	"namesrvAddr": true, "fetchNameSrvAddrByDnsLookup": true, "updateNameServerAddrPeriod": true, "registerNameServerPeriod": true,
	"registerBrokerTimeoutMills": true, "forceRegister": true, "compressedRegister": true, "enableSplitRegistration": true,
	"splitRegistrationSize": true, "enableSingleTopicRegister": true, "notifyConsumerIdsChangedEnable": true,
	"realTimeNotifyConsumerChange": true, "rejectPullConsumerEnable": true, "channelExpiredTimeout": true,
	"enableRegisterProducer": true, "rejectTransactionMessage": true, "useServerSideResetOffset": true,
	"consumerOffsetUpdateVersionStep": true, "clampConsumerOffset": true,
}

// GetConfig answers request 26: all settings, a line for each.
func (h *Handlers) GetConfig(r *remoting.Request) {
	var text []byte
	for _, p := range h.list() {
		text = properties.AppendPlain(text, p.Key, p.Value)
	}
	version, err := fastjson.Marshal(h.version.Load())
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	r.Reply(&header.GetBrokerConfigResponse{Version: string(version)}, text)
}

// list are the settings that the original lists: of its four classes, without two
// that are static there, and whatever else somebody has set.
func (h *Handlers) list() []properties.Pair {
	quiet := map[string]bool{"rmqAddressServerDomain": true, "rmqAddressServerSubGroup": true}
	for _, k := range settings.Keys("AuthConfig") {
		quiet[k.Name] = true
	}
	for _, key := range h.o.Settings.Changed() {
		delete(quiet, key)
	}
	return slices.DeleteFunc(h.o.Settings.All(), func(p properties.Pair) bool { return quiet[p.Key] })
}

// blackList are the settings that nobody may change by request, whatever
// configBlackList says.
var blackList = []string{"brokerConfigPath", "rocketmqHome", "configBlackList"}

// UpdateConfig answers request 25. As in the original, unknown keys and values
// that do not parse are success without effect; the remark says what became of
// each key that is not simply in force. A setting that promises what Gantry
// cannot do is refused, with all others of the request. Changes are written into
// the configuration file, whose other lines stay as they are.
func (h *Handlers) UpdateConfig(r *remoting.Request) {
	pairs, err := properties.Parse(r.Cmd.Body)
	if err != nil {
		r.Fail(code.SystemError, "string2Properties error: "+err.Error())
		return
	}
	pairs = lastOfEach(pairs)
	black := append(strings.Split(h.o.Settings.String("configBlackList"), ";"), blackList...)
	for _, p := range pairs {
		if slices.Contains(black, p.Key) {
			r.Fail(code.NoPermission, "Can not update config in black list.")
			return
		}
	}
	if len(pairs) == 0 {
		r.Reply(nil, nil)
		return
	}
	remarks, changed, err := h.change(pairs)
	if err != nil {
		h.o.Log.Warn("settings are not changed", zap.Stringer("client", r.Conn.Remote()), zap.Error(err))
		r.Fail(code.SystemError, "nothing was changed: "+err.Error())
		return
	}
	if len(changed) > 0 {
		h.o.Log.Info("settings changed by an administrator", zap.Stringer("client", r.Conn.Remote()), zap.Any("settings", changed))
	}
	r.Respond(code.Success, strings.Join(remarks, "; "), nil, nil)
}

// change puts settings into force and into the file, and tells whom they concern,
// in the order of the changes: the last one told must have read the last values.
func (h *Handlers) change(pairs []properties.Pair) (remarks []string, changed []properties.Pair, err error) {
	h.changing.Lock()
	defer h.changing.Unlock()
	if err := h.try(pairs); err != nil {
		return nil, nil, err
	}
	remarks, changed = h.apply(pairs)
	if len(changed) > 0 {
		if err := h.write(changed); err != nil {
			h.o.Log.Error("changed settings cannot be written into the configuration file", zap.Error(err))
			remarks = append(remarks, "not written into the configuration file and lost at the next start: "+err.Error())
		}
		h.tell(changed)
	}
	v := *h.version.Load()
	v.Next(0, h.o.Now())
	h.version.Store(&v)
	return remarks, changed, nil
}

// tell brings changed settings to those who keep something that follows from
// them. It may wait for name servers.
func (h *Handlers) tell(changed []properties.Pair) {
	keys := make([]string, len(changed))
	for i, p := range changed {
		keys[i] = p.Key
	}
	if slices.Contains(keys, "brokerPermission") {
		h.o.Topics.Step()
	}
	if h.o.Changed != nil {
		h.o.Changed(keys)
	}
}

// lastOfEach leaves out lines without a key, and all but the last of equal ones.
func lastOfEach(pairs []properties.Pair) (list []properties.Pair) {
	for i, p := range pairs {
		if p.Key != "" && !slices.ContainsFunc(pairs[i+1:], func(q properties.Pair) bool { return q.Key == p.Key }) {
			list = append(list, p)
		}
	}
	return list
}

// try looks whether the broker could have been started with the changes.
func (h *Handlers) try(pairs []properties.Pair) error {
	s := settings.New(h.o.Classes...)
	var text []byte
	for _, p := range h.o.Settings.All() {
		text = properties.Append(text, p.Key, p.Value)
	}
	s.Load(text)
	for _, p := range pairs {
		s.Put(p.Key, p.Value)
	}
	return h.o.Check(s)
}

// apply puts the pairs into force; changed are those that have a new value now.
func (h *Handlers) apply(pairs []properties.Pair) (remarks []string, changed []properties.Pair) {
	s := h.o.Settings
	scratch := settings.New(h.o.Classes...)
	for _, p := range pairs {
		if !s.Has(p.Key) {
			remarks = append(remarks, strings.ReplaceAll(scratch.Put(p.Key, p.Value).Text(), "is kept but", "is not kept and"))
			continue
		}
		before := s.String(p.Key)
		problem := s.Put(p.Key, p.Value)
		if problem != nil {
			remarks = append(remarks, problem.Text())
		}
		if s.String(p.Key) == before {
			continue
		}
		changed = append(changed, properties.Pair{Key: p.Key, Value: s.String(p.Key)})
		if !live[p.Key] && (h.o.Live == nil || !h.o.Live(p.Key)) {
			remarks = append(remarks, p.Key+" takes effect after a restart")
		}
	}
	return remarks, changed
}

// write puts the settings into the configuration file that the broker was
// started with.
func (h *Handlers) write(changed []properties.Pair) error {
	path := h.o.Settings.String("brokerConfigPath")
	if path == "" {
		return fmt.Errorf("the broker was started without one")
	}
	file := configfile.New(configfile.Options{FS: h.o.FS, Path: path, Now: h.o.Now, Log: h.o.Log})
	var text []byte
	if err := file.Load(func(content []byte) error { text = content; return nil }); err != nil {
		return err
	}
	return file.Save(properties.Edit(text, changed))
}
