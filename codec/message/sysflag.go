package message

// Bits of a record's system flag.
const (
	Compressed  int32 = 0x1  // the body is compressed; see CompressionOf
	MultiTags   int32 = 0x2  // the topic's filter type is MULTI_TAG
	BornHostV6  int32 = 0x10 // the born host has 16 address bytes
	StoreHostV6 int32 = 0x20 // the store host has 16 address bytes
	NeedUnwrap  int32 = 0x40 // the body is a batch that the client takes apart
	InnerBatch  int32 = 0x80 // one record that holds a batch (BatchCQ topics)

	TransactionMask     int32 = 0xC
	TransactionNone     int32 = 0x0
	TransactionPrepared int32 = 0x4
	TransactionCommit   int32 = 0x8
	TransactionRollback int32 = 0xC

	CompressionMask int32 = 0x700
)

// TransactionType returns the transaction bits of a system flag.
func TransactionType(sysFlag int32) int32 { return sysFlag & TransactionMask }

// WithTransactionType replaces the transaction bits of a system flag.
func WithTransactionType(sysFlag, transaction int32) int32 {
	return sysFlag&^TransactionMask | transaction&TransactionMask
}

// HasQueueOffset reports whether a record with this flag takes a place in its
// queue. Prepared and rollback records do not: their queue offset is 0 and no
// queue unit is written for them.
func HasQueueOffset(sysFlag int32) bool {
	t := sysFlag & TransactionMask
	return t == TransactionNone || t == TransactionCommit
}
