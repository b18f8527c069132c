package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression names how a body is compressed; the values are those of bits 8
// to 10 of the system flag.
type Compression uint8

const (
	LZ4  Compression = 1 // LZ4 frame format
	ZSTD Compression = 2
	Zlib Compression = 3
)

var (
	// ErrTooLarge says that a body decompresses to more than the limit.
	ErrTooLarge = errors.New("decompressed body exceeds the limit")
	// ErrCompression says that a compressed body cannot be read.
	ErrCompression = errors.New("compressed body cannot be read")
)

// CompressionOf returns the compression of a system flag's type bits. Type 0,
// which old clients send, means zlib. ok is false for types nobody defined. It
// does not look at the Compressed bit.
func CompressionOf(sysFlag int32) (c Compression, ok bool) {
	c = Compression((sysFlag & CompressionMask) >> 8)
	if c == 0 {
		return Zlib, true
	}
	return c, c <= Zlib
}

// Flag returns the type bits for a system flag.
func (c Compression) Flag() int32 { return int32(c) << 8 }

func (c Compression) String() string {
	switch c {
	case LZ4:
		return "LZ4"
	case ZSTD:
		return "ZSTD"
	case Zlib:
		return "ZLIB"
	}
	return fmt.Sprintf("Compression(%d)", uint8(c))
}

// ParseCompression reads a name in any case, as Java's settings give it.
func ParseCompression(name string) (Compression, bool) {
	switch strings.ToUpper(strings.TrimSpace(name)) {
	case "LZ4":
		return LZ4, true
	case "ZSTD":
		return ZSTD, true
	case "ZLIB":
		return Zlib, true
	}
	return 0, false
}

// Compress appends src in compressed form. level is zlib's 1 to 9 (Java's
// clients use 5); it is taken for zstd by its nearest and ignored for LZ4.
func Compress(dst, src []byte, c Compression, level int) ([]byte, error) {
	if level < 1 || level > 9 {
		level = 5
	}
	out := bytes.NewBuffer(dst)
	var w io.WriteCloser
	switch c {
	case LZ4:
		lw := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(lw)
		lw.Reset(out)
		w = lw
	case ZSTD:
		enc, err := zstdEncoder(level)
		if err != nil {
			return dst, err
		}
		return enc.EncodeAll(src, dst), nil
	case Zlib:
		pool := &zlibWriters[level]
		zw, _ := pool.Get().(*zlib.Writer)
		if zw == nil {
			var err error
			if zw, err = zlib.NewWriterLevel(io.Discard, level); err != nil {
				return dst, err
			}
		}
		defer pool.Put(zw)
		zw.Reset(out)
		w = zw
	default:
		return dst, fmt.Errorf("%w: unknown type %d", ErrCompression, c)
	}
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	if err := w.Close(); err != nil {
		return dst, err
	}
	return out.Bytes(), nil
}

// Decompress appends the plain form of src, at most limit bytes of it
// (ErrTooLarge beyond). Other errors wrap ErrCompression. On an error dst comes
// back as it was.
func Decompress(dst, src []byte, c Compression, limit int) ([]byte, error) {
	in := bytes.NewReader(src)
	var r io.Reader
	switch c {
	case LZ4:
		lr := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(lr)
		lr.Reset(in)
		r = lr
	case ZSTD:
		zr, _ := zstdReaders.Get().(*zstd.Decoder)
		if zr == nil {
			var err error
			// One goroutine-free decoder; the window is bounded so that a
			// header cannot ask for gigabytes.
			zr, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
			if err != nil {
				return dst, err
			}
		}
		defer zstdReaders.Put(zr)
		if err := zr.Reset(in); err != nil {
			return dst, fmt.Errorf("%w: %v", ErrCompression, err)
		}
		r = zr
	case Zlib:
		zr, _ := zlibReaders.Get().(io.ReadCloser)
		var err error
		if zr == nil {
			zr, err = zlib.NewReader(in)
		} else {
			err = zr.(zlib.Resetter).Reset(in, nil)
		}
		if err != nil {
			if zr != nil {
				zlibReaders.Put(zr)
			}
			return dst, fmt.Errorf("%w: %v", ErrCompression, err)
		}
		defer zlibReaders.Put(zr)
		r = zr
	default:
		return dst, fmt.Errorf("%w: unknown type %d", ErrCompression, c)
	}
	// Text shrinks to a third or so; the first guess saves most of the growing.
	out := dst
	if guess := min(limit+1, 3*len(src)+512); cap(out)-len(out) < guess {
		out = slices.Grow(out, guess)
	}
	out, err := readAll(out, r, limit)
	in.Reset(nil) // the pooled reader keeps it, and must not keep src
	return out, err
}

// readAll appends r to dst and fails as soon as there are more than limit bytes.
func readAll(dst []byte, r io.Reader, limit int) ([]byte, error) {
	base := len(dst)
	out := dst
	for {
		if len(out)-base > limit {
			return dst, ErrTooLarge
		}
		if len(out) == cap(out) {
			out = append(out, 0)[:len(out)]
		}
		n, err := r.Read(out[len(out):min(cap(out), base+limit+1)])
		out = out[:len(out)+n]
		if err == io.EOF {
			if len(out)-base > limit {
				return dst, ErrTooLarge
			}
			return out, nil
		}
		if err != nil {
			return dst, fmt.Errorf("%w: %v", ErrCompression, err)
		}
	}
}

// zstdWindow is the largest window taken; Java's clients stay far below it.
const zstdWindow = 64 << 20

var (
	lz4Writers  = sync.Pool{New: func() any { return lz4.NewWriter(nil) }}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zlibWriters [10]sync.Pool
	zlibReaders sync.Pool
	zstdReaders sync.Pool

	zstdMu       sync.Mutex
	zstdEncoders [zstd.SpeedBestCompression + 1]*zstd.Encoder
)

// zstdEncoder returns the shared encoder for a level; EncodeAll may be called
// concurrently.
func zstdEncoder(level int) (*zstd.Encoder, error) {
	l := zstd.EncoderLevelFromZstd(level)
	zstdMu.Lock()
	defer zstdMu.Unlock()
	if zstdEncoders[l] == nil {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		zstdEncoders[l] = e
	}
	return zstdEncoders[l], nil
}
