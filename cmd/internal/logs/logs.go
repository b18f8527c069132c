// Package logs builds the log of a server: to a stream of the process, as a container wants it, or to files with the
// names and the rotation that operators of RocketMQ know.
package logs

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Options say where the log goes and how it looks.
type Options struct {
	Target string    // "stderr", "stdout", or a folder
	Name   string    // of the file in the folder: "broker" becomes broker.log
	Keep   int       // rotated files that are kept, in otherdays below the folder
	JSON   bool      // one JSON object a line
	Stdout io.Writer // for Target "stdout"; nil: the process's
	Stderr io.Writer // for Target "stderr"; nil: the process's
}

// Size at which a file is rotated, as in RocketMQ's own configuration.
const rotateAt = 128 << 20

// Open returns a log, and what must be called at the very end.
func Open(o Options) (*zap.Logger, func(), error) {
	var out io.Writer
	closeFile := func() {}
	switch o.Target {
	case "stdout":
		out = cmp.Or[io.Writer](o.Stdout, os.Stdout)
	case "stderr":
		out = cmp.Or[io.Writer](o.Stderr, os.Stderr)
	case "":
		return nil, nil, fmt.Errorf("--log: want stdout, stderr or a folder")
	default:
		f, err := openRotating(o.Target, o.Name, rotateAt, o.Keep)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot log to the folder %s: %w", o.Target, err)
		}
		// What ends the process without going through the log leaves its traces beside it.
		crash, err := os.OpenFile(filepath.Join(o.Target, o.Name+"_crash.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err == nil {
			_ = debug.SetCrashOutput(crash, debug.CrashOptions{})
			crash.Close() // the runtime has its own descriptor
		}
		out, closeFile = f, func() { _ = f.Close() }
	}
	enc := encoder(o.JSON)
	l := newLines(out, func(n int) []byte { return lostLine(enc, n) })
	done := func() {
		l.Close()
		closeFile()
	}
	return zap.New(zapcore.NewCore(enc, l, zapcore.InfoLevel)), done, nil
}

// lostLine says that lines are missing.
func lostLine(enc zapcore.Encoder, n int) []byte {
	b, err := enc.Clone().EncodeEntry(zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Now(), LoggerName: "log",
		Message: "lines are missing here: the log was not taken as fast as it came"}, []zapcore.Field{zap.Int("lines", n)})
	if err != nil {
		return nil
	}
	return b.Bytes()
}

func encoder(json bool) zapcore.Encoder {
	c := zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "message", StacktraceKey: "stack",
		LineEnding:     zapcore.DefaultLineEnding,
		EncodeLevel:    zapcore.CapitalLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
		EncodeName:     zapcore.FullNameEncoder,
	}
	if json {
		c.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		return zapcore.NewJSONEncoder(c)
	}
	c.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000")
	c.ConsoleSeparator = " "
	return zapcore.NewConsoleEncoder(c)
}
