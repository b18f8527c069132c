// Package send takes messages from producers: SEND_MESSAGE (10),
// SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320), one or many messages,
// oneway or not.
//
// A send runs on the loop that read it. It checks the request, encodes the
// record as a draft and leaves it in the round; at the end of the round all
// drafts go to the log in one turn, and each answer leaves when the log says
// that its draft is safe to the degree of the flush mode:
//
//	Handle -> check -> draft ─┐
//	Handle -> check -> draft ─┼─ round.EndRound -> store.Append -> op.AppendDone -> answer
//	Handle -> check -> draft ─┘
//
// The state of one send is an op. It is pooled and owns all buffers that must
// live until the answer, so that a send allocates nothing.
package send
