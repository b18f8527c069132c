package properties

import (
	"slices"
	"strings"
)

// Edit gives keys new values in a text, at the place of the last line that sets
// them or at the end, and leaves everything else as it is. Earlier lines of the
// same keys go.
func Edit(text []byte, changes []Pair) []byte {
	pairs, _ := Parse(text) // a broken escape elsewhere is not ours to mend
	lines := splitLines(string(text))
	left := slices.Clone(changes)
	for i := len(pairs) - 1; i >= 0; i-- { // of equal keys the last counts
		p := pairs[i]
		at := slices.IndexFunc(changes, func(c Pair) bool { return c.Key == p.Key })
		if at < 0 {
			continue
		}
		first, end := p.Line-1, p.Line
		for end < len(lines) && continued(lines[end-1]) {
			end++
		}
		replacement := ""
		if j := slices.IndexFunc(left, func(c Pair) bool { return c.Key == p.Key }); j >= 0 {
			replacement = string(Append(nil, left[j].Key, left[j].Value))
			left = slices.Delete(left, j, j+1)
		}
		lines = slices.Replace(lines, first, end, replacement)
	}
	out := strings.Join(lines, "")
	if len(left) > 0 {
		if out != "" && !strings.HasSuffix(out, "\n") {
			out += "\n"
		}
		if n := len(lines); n > 0 && continued(lines[n-1]) {
			out += "\n" // or the last line would go on in what follows
		}
	}
	for _, c := range left {
		out += string(Append(nil, c.Key, c.Value))
	}
	return []byte(out)
}

// splitLines cuts the text behind each line end: a line feed, a carriage return, or
// both.
func splitLines(text string) (lines []string) {
	for text != "" {
		i := strings.IndexAny(text, "\r\n")
		switch {
		case i < 0:
			i = len(text)
		case strings.HasPrefix(text[i:], "\r\n"):
			i += 2
		default:
			i++
		}
		lines = append(lines, text[:i])
		text = text[i:]
	}
	return lines
}

// continued tells whether a physical line goes on in the next one.
func continued(line string) bool {
	line = strings.TrimRight(line, "\r\n")
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}
