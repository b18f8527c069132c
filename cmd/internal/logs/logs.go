// Package logs builds the log of a server: to a stream of the process, as a container wants it, or to files with the
// names and the rotation that operators of RocketMQ know.
package logs

import (
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
	var out zapcore.WriteSyncer
	done := func() {}
	switch o.Target {
	case "stdout":
		out = stream(o.Stdout, os.Stdout)
	case "stderr":
		out = stream(o.Stderr, os.Stderr)
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
		// A log line must not make an event loop wait for the disk.
		buffered := &zapcore.BufferedWriteSyncer{WS: f, Size: 64 << 10, FlushInterval: 250 * time.Millisecond}
		out = buffered
		done = func() {
			_ = buffered.Stop()
			_ = f.Close()
		}
	}
	return zap.New(zapcore.NewCore(encoder(o.JSON), out, zapcore.InfoLevel)), done, nil
}

func stream(given io.Writer, own *os.File) zapcore.WriteSyncer {
	if given != nil {
		return zapcore.Lock(zapcore.AddSync(given))
	}
	return zapcore.Lock(own)
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
