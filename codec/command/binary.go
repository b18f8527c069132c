package command

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/gantrymq/gantry/codec/code"
)

// binaryFixed is the size of a binary header without remark and fields.
const binaryFixed = 21

func (c *Command) decodeBinary(b []byte) error {
	if len(b) < binaryFixed {
		return headerError(len(b), "header ends early")
	}
	c.Code = int32(int16(binary.BigEndian.Uint16(b)))
	c.Language, _ = code.LanguageOf(int(b[2]))
	c.Version = code.Version(int16(binary.BigEndian.Uint16(b[3:])))
	c.Opaque = int32(binary.BigEndian.Uint32(b[5:]))
	c.HasOpaque = true
	c.Flag = int32(binary.BigEndian.Uint32(b[9:]))
	i := 13
	var err error
	if c.Remark, i, err = binaryText(b, i, 4); err != nil {
		return err
	}
	if len(b)-i < 4 {
		return headerError(i, "header ends early")
	}
	length := int32(binary.BigEndian.Uint32(b[i:]))
	i += 4
	if length <= 0 {
		// Java takes a negative length for an empty map.
		if i != len(b) {
			return headerError(i, "bytes behind the fields")
		}
		return nil
	}
	if int(length) != len(b)-i {
		return headerError(i-4, "length of the fields does not fit the header")
	}
	c.HasFields = true
	for i < len(b) {
		var f Field
		if f.Key, i, err = binaryText(b, i, 2); err != nil {
			return err
		}
		if f.Value, i, err = binaryText(b, i, 4); err != nil {
			return err
		}
		if len(c.Fields) == MaxFields {
			return headerError(i, "too many ext fields")
		}
		c.Fields = append(c.Fields, f)
	}
	return nil
}

// binaryText reads a text whose length has width bytes, which is signed, at b[i:]. An empty text is null, as in Java.
func binaryText(b []byte, i, width int) (text []byte, next int, err error) {
	if len(b)-i < width {
		return nil, i, headerError(i, "header ends early")
	}
	var n int
	if width == 2 {
		n = int(int16(binary.BigEndian.Uint16(b[i:])))
	} else {
		n = int(int32(binary.BigEndian.Uint32(b[i:])))
	}
	i += width
	if n < 0 || n > len(b)-i {
		return nil, i, headerError(i-width, "length of a text out of range")
	}
	if n == 0 {
		return nil, i, nil
	}
	text = b[i : i+n : i+n]
	if !utf8.Valid(text) {
		text = replaceInvalid(text)
	}
	return text, i + n, nil
}
