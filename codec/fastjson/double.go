package fastjson

import "strconv"

// AppendDouble writes v as Java's Double.toString does: with a point, and with
// an exponent below 10^-3 and from 10^7 on.
func AppendDouble(dst []byte, v float64) []byte { return appendDouble(dst, v, 64) }

func appendDouble(dst []byte, v float64, bits int) []byte {
	abs := v
	if abs < 0 {
		abs = -abs
	}
	if abs == 0 || abs >= 1e-3 && abs < 1e7 {
		start := len(dst)
		dst = strconv.AppendFloat(dst, v, 'f', -1, bits)
		for _, c := range dst[start:] {
			if c == '.' {
				return dst
			}
		}
		return append(dst, ".0"...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'e', -1, bits)
	// Go writes 1e+10 and 1.5e-05, Java 1.0E10 and 1.5E-5.
	for i := start; i < len(dst); i++ {
		if dst[i] != 'e' {
			continue
		}
		exp, _ := strconv.Atoi(string(dst[i+1:]))
		point := false
		for _, c := range dst[start:i] {
			point = point || c == '.'
		}
		dst = dst[:i]
		if !point {
			dst = append(dst, ".0"...)
		}
		dst = append(dst, 'E')
		return strconv.AppendInt(dst, int64(exp), 10)
	}
	return dst // NaN and infinities
}
