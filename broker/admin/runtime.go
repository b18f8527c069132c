package admin

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/remoting"
)

// RuntimeInfo answers request 28: a table of names and texts that tools and
// exporters parse, in the original's names and forms.
func (h *Handlers) RuntimeInfo(r *remoting.Request) {
	r.ReplyJSON(nil, &body.KVTable{Table: h.Figures()})
}

// storeFigures are the names Options.Store answers for, with what is said when it
// leaves one out.
var storeFigures = map[string]string{
	"commitLogMinOffset": "-1", "commitLogMaxOffset": "0", "commitLogDiskRatio": "-1.0", "commitLogDirCapacity": "Total : 0 B, Free : 0 B.", "consumeQueueDiskRatio": "-1.0",
	"dispatchBehindBytes": "0", "dispatchMaxBuffer": "0", "pageCacheLockTimeMills": "0", "earliestMessageTimeStamp": "-1",
	"remainHowManyDataToFlush": "0 B", "putMessageEntireTimeMax": "0", "putMessageTimesTotal": "1", "putMessageFailedTimes": "0",
	"putMessageSizeTotal": "0", "putMessageAverageSize": "0.0", "putLatency99": "0.00", "putLatency999": "0.00",
	"putMessageDistributeTime": "[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 ",
	"timerReadBehind":          "0", "timerOffsetBehind": "0", "timerCongestNum": "0", "timerEnqueueTps": "0.0", "timerDequeueTps": "0.0",
}

// Figures is the table of request 28.
func (h *Handlers) Figures() map[string]string {
	set, st := h.o.Settings, h.o.Stats
	t := maps.Clone(storeFigures)
	maps.Copy(t, h.o.Store())

	now := h.o.Now()
	t["bootTimestamp"] = integer(h.booted.UnixMilli())
	t["runtime"] = age(now.Sub(h.booted))
	t["brokerActive"] = strconv.FormatBool(h.o.Active())
	t["brokerVersionDesc"] = code.Current.String()
	t["startAcceptSendRequestTimeStamp"] = integer(set.Int64("startAcceptSendRequestTimeStamp"))

	putYesterday, putToday, getYesterday, getToday := st.Days.Totals()
	t["msgPutTotalYesterdayMorning"], t["msgPutTotalTodayMorning"] = integer(putYesterday), integer(putToday)
	t["msgGetTotalYesterdayMorning"], t["msgGetTotalTodayMorning"] = integer(getYesterday), integer(getToday)
	t["msgPutTotalTodayNow"] = integer(st.Broker.PutNumsNoSystem.Value())
	t["msgGetTotalTodayNow"] = integer(st.Broker.GetNumsNoSystem.Value())

	t["putTps"] = st.Rates.Text(stats.PutRate)
	t["getFoundTps"] = st.Rates.Text(stats.FoundRate)
	t["getMissTps"] = st.Rates.Text(stats.MissedRate)
	t["getTotalTps"] = st.Rates.Text(stats.FoundRate, stats.MissedRate)
	t["getTransferredTps"] = st.Rates.Text(stats.TransferredRate)
	t["getMessageEntireTimeMax"] = integer(st.Rates.LongestGet.Load())

	// What Gantry does not have: a pool that can run short.
	t["remainTransientStoreBufferNumbs"] = integer(math.MaxInt32)

	for _, l := range lanes {
		waiting, longest := 0, time.Duration(0)
		if h.o.Lane != nil {
			waiting, longest = h.o.Lane(l.lane)
		}
		t[l.size] = strconv.Itoa(waiting)
		t[l.capacity] = integer(set.Int64(l.setting))
		if l.wait != "" {
			t[l.wait] = integer(longest.Milliseconds())
		}
	}
	return t
}

// lanes are the queues of requests that tools look at.
var lanes = []struct {
	lane                          remoting.Lane
	size, capacity, wait, setting string
}{
	{remoting.Send, "sendThreadPoolQueueSize", "sendThreadPoolQueueCapacity", "sendThreadPoolQueueHeadWaitTimeMills", "sendThreadPoolQueueCapacity"},
	{remoting.Pull, "pullThreadPoolQueueSize", "pullThreadPoolQueueCapacity", "pullThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueCapacity"},
	{remoting.LitePull, "litePullThreadPoolQueueSize", "litePullThreadPoolQueueCapacity", "litePullThreadPoolQueueHeadWaitTimeMills", "litePullThreadPoolQueueCapacity"},
	{remoting.Query, "queryThreadPoolQueueSize", "queryThreadPoolQueueCapacity", "queryThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueCapacity"},
	{remoting.Ack, "ackThreadPoolQueueSize", "ackThreadPoolQueueCapacity", "ackThreadPoolQueueHeadWaitTimeMills", "ackThreadPoolQueueCapacity"},
	{remoting.Transaction, "EndTransactionQueueSize", "EndTransactionThreadPoolQueueCapacity", "", "endTransactionPoolQueueCapacity"},
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }

func age(d time.Duration) string {
	s := int64(d / time.Second)
	return fmt.Sprintf("[ %s days, %d hours, %d minutes, %d seconds ]", grouped(s/86400), s/3600%24, s/60%60, s%60)
}

// grouped writes a number with a comma before each three digits, as Java's
// MessageFormat does.
func grouped(n int64) string {
	s := integer(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
