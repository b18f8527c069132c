// Package broker is what a RocketMQ broker does, put together from one package
// for each feature below this folder. The state that outlives a request lies in
//
//	topic/    topics and their handles (config/topics.json)
//	group/    consumer groups (config/subscriptionGroup.json)
//	offset/   consumer offsets (config/consumerOffset.json)
//	session/  connected producers and consumers; memory only
//	order/    queue locks of orderly consumers; memory only
//	stats/    counters; memory only
//	naming/   the registration with name servers
//	admin/    the requests of administrators
//
// failclosed.go refuses to start with settings or data that promise what is not
// built yet.
package broker
