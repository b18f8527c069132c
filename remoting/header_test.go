package remoting

import "github.com/gantrymq/gantry/codec/command"

// queueHeader stands for a header of a hot response.
type queueHeader struct{}

func (*queueHeader) AppendFields(w *command.Writer) {
	w.String("msgId", "7F0000020000597F0000000000000000")
	w.Int("queueId", 3)
	w.Int("queueOffset", 123456)
}
