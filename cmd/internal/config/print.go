package config

import (
	"fmt"
	"io"
	"strings"

	"github.com/gantrymq/gantry/broker"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/namesrv"
)

// important are the keys that the Java broker marks as such (mqbroker -m), in the order of its classes.
var important = strings.Fields(`
	brokerName brokerClusterName brokerId
	namesrvAddr listenPort brokerIP1 recoverConcurrently autoCreateTopicEnable autoCreateSubscriptionGroup msgTraceTopicName
	traceTopicEnable rejectTransactionMessage fetchNameSrvAddrByDnsLookup fetchNamesrvAddrByAddressServer transactionTimeOut
	transactionCheckMax transactionCheckInterval aclEnable
	storePathRootDir storePathCommitLog storePathDLedgerCommitLog storePathEpochFile storePathBrokerIdentity disappearTimeAfterStart
	storeType flushIntervalCommitLog commitIntervalCommitLog flushCommitLogTimed deleteWhen fileReservedTime deleteFileBatchMax
	maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInMemory maxTransferBytesOnMessageInDisk
	maxTransferCountOnMessageInDisk accessMessageInMemoryMaxRatio messageIndexEnable messageIndexSafe haMasterAddress brokerRole
	flushDiskType cleanFileForciblyEnable transientStorePoolEnable writeWithoutMmap enableRunningFlagsInFlush
	dispatchFromSenderThread wakeCommitWhenPutMessage wakeFlushWhenPutMessage enableCleanExpiredOffset totalReplicas inSyncReplicas
	minInSyncReplicas allAckInSyncStateSet enableAutoInSyncReplicas haFlowControlEnable`)

// Print writes the settings in force as key=value, one a line: all of them, or a broker's important ones. What was set
// and has no meaning comes last.
func (c *Config) Print(w io.Writer, onlyImportant bool) error {
	var b strings.Builder
	if onlyImportant && c.Broker != nil {
		for _, key := range important {
			fmt.Fprintf(&b, "%s=%s\n", key, c.Broker.String(key))
		}
	} else {
		if c.Namesrv != nil {
			c.printAll(&b, c.Namesrv, namesrv.Classes)
		}
		if c.Broker != nil {
			c.printAll(&b, c.Broker, broker.Classes)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Config) printAll(b *strings.Builder, set *settings.Set, classes []string) {
	printed := map[string]bool{}
	for _, k := range settings.Keys(classes...) {
		if !printed[k.Name] { // several classes may share a key
			printed[k.Name] = true
			fmt.Fprintf(b, "%s=%s\n", k.Name, set.String(k.Name))
		}
	}
	for _, p := range set.All() {
		if !printed[p.Key] && !c.namesrvOnly(p.Key) {
			fmt.Fprintf(b, "%s=%s\n", p.Key, p.Value)
		}
	}
}
