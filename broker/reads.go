package broker

import "github.com/gantrymq/gantry/store"

// readLimits are the settings of what one pull may read; they are live.
func (b *Broker) readLimits() store.ReadLimits {
	s := b.set
	return store.ReadLimits{
		MemoryBytes:   s.Int("maxTransferBytesOnMessageInMemory"),
		MemoryCount:   s.Int("maxTransferCountOnMessageInMemory"),
		DiskBytes:     s.Int("maxTransferBytesOnMessageInDisk"),
		DiskCount:     s.Int("maxTransferCountOnMessageInDisk"),
		MemoryPercent: s.Int("accessMessageInMemoryMaxRatio"),
		FilterBytes:   s.Int("maxFilterMessageSize"),
		QueueFiles:    max(1, s.Int("travelCqFileNumWhenGetMessage")), // with none a consumer would never get on
	}
}
