package broker

import (
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/remoting"
)

// Routes is the table of request codes that the broker answers; all others are
// answered with code 3. fast: also on the fast port, listenPort-2, where Java
// refuses what pulls.
func (b *Broker) Routes() []remoting.Route {
	const fast, notFast = true, false
	return []remoting.Route{
		// Producers. The batch field decides, not the code.
		{Code: code.SendMessage, Lane: remoting.Inline, Fast: fast, Handle: b.sends.Handle, Reject: b.rejectSends},
		{Code: code.SendMessageV2, Lane: remoting.Inline, Fast: fast, Handle: b.sends.Handle, Reject: b.rejectSends},
		{Code: code.SendBatchMessage, Lane: remoting.Inline, Fast: fast, Handle: b.sends.Handle, Reject: b.rejectSends},
		{Code: code.RecallMessage, Lane: remoting.Inline, Fast: fast, Handle: b.recalls.Handle},

		// Replies to producers that wait for one.
		{Code: code.SendReplyMessage, Lane: remoting.Reply, Fast: fast, Handle: b.replies.Handle},
		{Code: code.SendReplyMessageV2, Lane: remoting.Reply, Fast: fast, Handle: b.replies.Handle},

		// Transactions.
		{Code: code.EndTransaction, Lane: remoting.Inline, Fast: fast, Handle: b.halves.End},
		{Code: code.ResumeCheckHalfMessage, Lane: remoting.Admin, Fast: fast, Handle: b.halves.Resume},

		// Consumers.
		{Code: code.PullMessage, Lane: remoting.Inline, Fast: notFast, Handle: b.pulls.Handle},
		{Code: code.LitePullMessage, Lane: remoting.Inline, Fast: notFast, Handle: b.pulls.Handle},
		{Code: code.QueryConsumerOffset, Lane: remoting.Inline, Fast: fast, Handle: b.progress.Query},
		{Code: code.UpdateConsumerOffset, Lane: remoting.Inline, Fast: fast, Handle: b.progress.Commit},
		{Code: code.LockBatchMQ, Lane: remoting.Admin, Fast: fast, Handle: b.locks.LockBatch}, // JSON of any length
		{Code: code.UnlockBatchMQ, Lane: remoting.Admin, Fast: fast, Handle: b.locks.UnlockBatch},

		{Code: code.ConsumerSendMsgBack, Lane: remoting.Send, Fast: fast, Handle: b.retries.Handle, Reject: b.rejectSends},
		{Code: code.GetAllConsumerOffset, Lane: remoting.Admin, Fast: fast, Handle: b.progress.All},
		{Code: code.InvokeBrokerToResetOffset, Lane: remoting.Admin, Fast: fast, Handle: b.progress.Reset},
		{Code: code.QueryCorrectionOffset, Lane: remoting.Admin, Fast: fast, Handle: b.progress.Correction},
		{Code: code.CloneGroupOffset, Lane: remoting.Admin, Fast: fast, Handle: b.progress.Clone},

		// Sessions.
		{Code: code.HeartBeat, Lane: remoting.Heartbeat, Fast: fast, Handle: b.clients.Heartbeat},
		{Code: code.UnregisterClient, Lane: remoting.Client, Fast: fast, Handle: b.clients.Unregister},
		{Code: code.GetConsumerListByGroup, Lane: remoting.Consumer, Fast: fast, Handle: b.clients.List},
		{Code: code.CheckClientConfig, Lane: remoting.Client, Fast: fast, Handle: b.clients.CheckClient},
		{Code: code.GetConsumerConnectionList, Lane: remoting.Admin, Fast: fast, Handle: b.clients.ConsumerConnections},
		{Code: code.GetProducerConnectionList, Lane: remoting.Admin, Fast: fast, Handle: b.clients.ProducerConnections},
		{Code: code.GetAllProducerInfo, Lane: remoting.Admin, Fast: fast, Handle: b.clients.Producers},
		{Code: code.GetConsumerRunningInfo, Lane: remoting.Admin, Fast: fast, Handle: b.relays.RunningInfo},
		{Code: code.ConsumeMessageDirectly, Lane: remoting.Admin, Fast: fast, Handle: b.relays.ConsumeDirectly},
		{Code: code.InvokeBrokerToGetConsumerStatus, Lane: remoting.Admin, Fast: fast, Handle: b.relays.Status},

		// Queues: offsets by time, their ends, their units.
		{Code: code.SearchOffsetByTimestamp, Lane: remoting.Admin, Fast: fast, Handle: b.queries.SearchOffset},
		{Code: code.GetMaxOffset, Lane: remoting.Inline, Fast: fast, Handle: b.queries.MaxOffset},
		{Code: code.GetMinOffset, Lane: remoting.Inline, Fast: fast, Handle: b.queries.MinOffset},

		{Code: code.GetEarliestMsgStoreTime, Lane: remoting.Admin, Fast: fast, Handle: b.queries.EarliestTime},
		{Code: code.QueryConsumeQueue, Lane: remoting.Admin, Fast: fast, Handle: b.queries.Units},

		// Messages by key and by offset.
		{Code: code.QueryMessage, Lane: remoting.Query, Fast: fast, Handle: b.queries.Messages},
		{Code: code.ViewMessageByID, Lane: remoting.Query, Fast: fast, Handle: b.queries.View},

		// Administration.
		{Code: code.GetTimerCheckPoint, Lane: remoting.Admin, Fast: fast, Handle: b.wheel.AnswerCheckpoint},
		{Code: code.GetTimerMetrics, Lane: remoting.Admin, Fast: fast, Handle: b.wheel.AnswerMetrics},
		{Code: code.GetAllDelayOffset, Lane: remoting.Admin, Fast: fast, Handle: b.delays.Offsets},
		{Code: code.UpdateAndCreateTopic, Lane: remoting.Admin, Fast: fast, Handle: b.admins.CreateTopic},
		{Code: code.UpdateAndCreateTopicList, Lane: remoting.Admin, Fast: fast, Handle: b.admins.CreateTopics},
		{Code: code.DeleteTopicInBroker, Lane: remoting.Admin, Fast: fast, Handle: b.admins.DeleteTopic},
		{Code: code.CleanUnusedTopic, Lane: remoting.Admin, Fast: fast, Handle: b.admins.CleanUnusedTopics},
		{Code: code.GetSystemTopicListFromBroker, Lane: remoting.Admin, Fast: fast, Handle: b.admins.SystemTopics},
		{Code: code.GetTopicConfig, Lane: remoting.Admin, Fast: fast, Handle: b.admins.Topic},
		{Code: code.GetAllTopicConfig, Lane: remoting.Admin, Fast: fast, Handle: b.admins.AllTopics},
		{Code: code.UpdateAndCreateSubscriptionGroup, Lane: remoting.Admin, Fast: fast, Handle: b.admins.CreateGroup},
		{Code: code.UpdateAndCreateSubscriptionGroupList, Lane: remoting.Admin, Fast: fast, Handle: b.admins.CreateGroups},
		{Code: code.DeleteSubscriptionGroup, Lane: remoting.Admin, Fast: fast, Handle: b.admins.DeleteGroup},
		{Code: code.GetSubscriptionGroupConfig, Lane: remoting.Admin, Fast: fast, Handle: b.admins.Group},
		{Code: code.GetAllSubscriptionGroupConfig, Lane: remoting.Admin, Fast: fast, Handle: b.admins.Groups},
		{Code: code.UpdateAndGetGroupForbidden, Lane: remoting.Admin, Fast: fast, Handle: b.admins.Forbid},
		{Code: code.GetTopicStatsInfo, Lane: remoting.Admin, Fast: fast, Handle: b.admins.TopicStats},
		{Code: code.GetConsumeStats, Lane: remoting.Admin, Fast: fast, Handle: b.admins.ConsumeStats},
		{Code: code.GetBrokerConsumeStats, Lane: remoting.Admin, Fast: fast, Handle: b.admins.BrokerConsumeStats},
		{Code: code.QueryTopicConsumeByWho, Lane: remoting.Admin, Fast: fast, Handle: b.admins.TopicGroups},
		{Code: code.QueryTopicsByConsumer, Lane: remoting.Admin, Fast: fast, Handle: b.admins.GroupTopics},
		{Code: code.QuerySubscriptionByConsumer, Lane: remoting.Admin, Fast: fast, Handle: b.admins.Subscription},
		{Code: code.QueryConsumeTimeSpan, Lane: remoting.Admin, Fast: fast, Handle: b.admins.TimeSpans},
		{Code: code.ViewBrokerStatsData, Lane: remoting.Admin, Fast: fast, Handle: b.admins.StatsData},
		{Code: code.UpdateBrokerConfig, Lane: remoting.Admin, Fast: fast, Handle: b.admins.UpdateConfig},
		{Code: code.GetBrokerConfig, Lane: remoting.Admin, Fast: fast, Handle: b.admins.GetConfig},
		{Code: code.DeleteExpiredCommitLog, Lane: remoting.Admin, Fast: fast, Handle: b.admins.DeleteExpired},
		{Code: code.CleanExpiredConsumeQueue, Lane: remoting.Admin, Fast: fast, Handle: b.admins.CleanQueues},
		{Code: code.GetBrokerRuntimeInfo, Lane: remoting.Admin, Fast: fast, Handle: b.admins.RuntimeInfo},
	}
}
