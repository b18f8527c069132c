package gen

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// headerColumns is the first line of headers.tsv. Package header's doc tells what the columns mean.
const headerColumns = "area\theader\tfield\tname\ttype\tmode\tdefault\tletter\tmeaning"

// Header is one struct of codec/header.
type Header struct {
	Area, Name string
	About      string // request codes or a remark, for the comment
	Fast       bool   // Java reads it without reflection: a bad number is an error even in a nullable field
	RPC        bool   // has the fields of Java's RpcRequestHeader
	Fields     []HeaderField
}

// HeaderField is one ext field of a Header.
type HeaderField struct {
	Wire, Name string
	Type       string // text, bytes, int32, int64, bool
	Mode       string // required, optional, default
	Default    string // for mode default; empty: zero
	Letter     string // short name on the wire, or empty
	Meaning    string
	index      int // of its value among those collected by Decode
}

// Headers returns the generated files of codec/header by name, made from the table in dir.
func Headers(dir string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, "headers.tsv"))
	if err != nil {
		return nil, err
	}
	headers, err := parseHeaders(text)
	if err != nil {
		return nil, fmt.Errorf("headers.tsv: %w", err)
	}
	areas := make(map[string]*bytes.Buffer)
	var all bytes.Buffer
	fmt.Fprintf(&all, "%s\npackage header\n\n// codecs makes one of each header for the tests.\nvar codecs = []func() codec{\n", generatedBy("headers.tsv"))
	for _, h := range headers {
		b := areas[h.Area]
		if b == nil {
			b = new(bytes.Buffer)
			areas[h.Area] = b
			fmt.Fprintf(b, "%s\npackage header\n\nimport \"github.com/gantrymq/gantry/codec/command\"\n", generatedBy("headers.tsv"))
		}
		h.generate(b, false)
		fmt.Fprintf(&all, "func() codec { return new(%s) },\n", h.Name)
		if h.letters() {
			h.generate(b, true)
			fmt.Fprintf(&all, "func() codec { return new(%sV2) },\n", h.Name)
		}
	}
	all.WriteString("}\n")
	files := make(map[string][]byte)
	for area, b := range areas {
		if files[area+"_gen.go"], err = format.Source(b.Bytes()); err != nil {
			return nil, fmt.Errorf("%s: %w", area, err)
		}
	}
	if files["codecs_gen_test.go"], err = format.Source(all.Bytes()); err != nil {
		return nil, err
	}
	return files, nil
}

func parseHeaders(text []byte) ([]*Header, error) {
	var headers []*Header
	names := make(map[string]bool)
	for i, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		if i == 0 {
			if line != headerColumns {
				return nil, fmt.Errorf("first line must be %q", headerColumns)
			}
			continue
		}
		col := strings.Split(line, "\t")
		if len(col) != strings.Count(headerColumns, "\t")+1 {
			return nil, fmt.Errorf("line %d has %d columns", i+1, len(col))
		}
		if col[4] == "header" {
			if names[col[1]] {
				return nil, fmt.Errorf("line %d: header %s again", i+1, col[1])
			}
			names[col[1]] = true
			headers = append(headers, &Header{Area: col[0], Name: col[1], Fast: col[5] == "fast", About: col[8]})
			continue
		}
		if len(headers) == 0 || headers[len(headers)-1].Name != col[1] {
			return nil, fmt.Errorf("line %d: field of %s outside of its header", i+1, col[1])
		}
		h := headers[len(headers)-1]
		if col[4] == "rpc" {
			h.RPC = true
			continue
		}
		f := HeaderField{Wire: col[2], Name: col[3], Type: col[4], Mode: col[5], Default: col[6], Letter: col[7], Meaning: col[8], index: len(h.Fields)}
		if !slices.Contains([]string{"text", "bytes", "int32", "int64", "bool"}, f.Type) || !slices.Contains([]string{"required", "optional", "default"}, f.Mode) {
			return nil, fmt.Errorf("line %d: type %q, mode %q", i+1, f.Type, f.Mode)
		}
		if f.isText() && f.Mode == "default" {
			return nil, fmt.Errorf("line %d: a text has no default", i+1)
		}
		h.Fields = append(h.Fields, f)
	}
	return headers, nil
}

func (f *HeaderField) isText() bool { return f.Type == "text" || f.Type == "bytes" }

func (f *HeaderField) goType() string {
	switch {
	case f.Type == "text":
		return "string"
	case f.Type == "bytes":
		return "[]byte"
	case f.Mode == "optional":
		return "Opt[" + f.Type + "]"
	}
	return f.Type
}

func (h *Header) letters() bool {
	return slices.ContainsFunc(h.Fields, func(f HeaderField) bool { return f.Letter != "" })
}

// brokerLetter is the short name of the RPC field bname.
const brokerLetter = 'n'

// generate writes the struct and its methods; with short it writes the variant with short names, which shares the
// struct.
func (h *Header) generate(b *bytes.Buffer, short bool) {
	name := h.Name
	if short {
		name += "V2"
		fmt.Fprintf(b, "\n// %s is %s with the short names that current clients send.\ntype %s %s\n", name, h.Name, name, h.Name)
	} else {
		fmt.Fprintf(b, "\n// %s is the header of ", name)
		switch {
		case h.About != "":
			fmt.Fprintf(b, "%s.\n", h.About)
		case strings.HasSuffix(name, "Response"):
			fmt.Fprintf(b, "the response to %s.\n", strings.TrimSuffix(name, "Response")+"Request")
		default:
			fmt.Fprintf(b, "Java's class of that name.\n")
		}
		if len(h.Fields) == 0 && !h.RPC {
			fmt.Fprintf(b, "type %s struct{}\n", name)
		} else {
			fmt.Fprintf(b, "type %s struct {\n", name)
			for _, f := range h.Fields {
				fmt.Fprintf(b, "%s %s", f.Name, f.goType())
				if f.Meaning != "" {
					fmt.Fprintf(b, " // %s", f.Meaning)
				}
				b.WriteByte('\n')
			}
			if h.RPC {
				b.WriteString("RPC\n")
			}
			b.WriteString("}\n")
		}
	}
	h.decode(b, name, short)
	h.append(b, name, short)
}

func (h *Header) decode(b *bytes.Buffer, name string, short bool) {
	fmt.Fprintf(b, "\n// Decode reads the ext fields into h, replacing all that h held.\nfunc (h *%s) Decode(fields []command.Field) error {\n", name)
	if len(h.Fields) == 0 && !h.RPC {
		b.WriteString("return nil\n}\n")
		return
	}
	both := h.letters() && !short
	if n := len(h.Fields); n > 0 {
		fmt.Fprintf(b, "var v [%d][]byte\n", n)
	}
	if h.RPC {
		b.WriteString("var rpc rpcValues\n")
	}
	if both {
		b.WriteString("short := false\n")
	}
	b.WriteString("for i := range fields {\nf := &fields[i]\n")
	if short || both {
		b.WriteString("if len(f.Key) == 1 {\nswitch f.Key[0] {\n")
		for _, f := range h.Fields {
			if f.Letter != "" {
				fmt.Fprintf(b, "case '%s':\nv[%d] = f.Value\n", f.Letter, f.index)
			}
		}
		fmt.Fprintf(b, "case '%c':\nrpc.letter = f.Value\n}\n", brokerLetter)
		if both {
			b.WriteString("short = true\n")
		}
		b.WriteString("continue\n}\n")
	}
	switch {
	case short:
		b.WriteString("rpc.see(f)\n")
	default:
		b.WriteString("switch string(f.Key) {\n")
		for _, f := range h.Fields {
			fmt.Fprintf(b, "case %q:\nv[%d] = f.Value\n", f.Wire, f.index)
		}
		if h.RPC {
			b.WriteString("default:\nrpc.see(f)\n")
		}
		b.WriteString("}\n")
	}
	b.WriteString("}\n")
	numbers := slices.ContainsFunc(h.Fields, func(f HeaderField) bool {
		return !f.isText() && f.Type != "bool" || f.Type == "bool" && f.Mode == "required"
	})
	if numbers {
		fmt.Fprintf(b, "d := decoder{header: %q", name)
		switch {
		case short || h.Fast:
			b.WriteString(", strict: true")
		case both:
			b.WriteString(", strict: short")
		}
		b.WriteString("}\n")
	}
	for _, f := range h.Fields {
		wire := f.Wire
		if short {
			wire = f.Letter
		}
		fmt.Fprintf(b, "h.%s = %s\n", f.Name, f.decodeExpr(wire))
	}
	if h.RPC {
		b.WriteString("h.RPC.set(&rpc)\n")
	}
	if numbers {
		b.WriteString("return d.err\n}\n")
	} else {
		b.WriteString("return nil\n}\n")
	}
}

func (f *HeaderField) decodeExpr(wire string) string {
	v := fmt.Sprintf("v[%d]", f.index)
	def := f.Default
	switch {
	case f.Type == "text":
		return "string(" + v + ")"
	case f.Type == "bytes":
		return v
	case f.Type == "bool" && f.Mode == "required":
		return fmt.Sprintf("d.bool(%q, %s)", wire, v)
	case f.Type == "bool" && f.Mode == "optional":
		return "optBool(" + v + ")"
	case f.Type == "bool":
		if def == "" {
			def = "false"
		}
		return fmt.Sprintf("boolOr(%s, %s)", v, def)
	case f.Mode == "required":
		return fmt.Sprintf("d.%s(%q, %s)", f.Type, wire, v)
	case f.Mode == "optional":
		return fmt.Sprintf("d.opt%s(%q, %s)", upper(f.Type), wire, v)
	}
	if def == "" {
		def = "0"
	}
	return fmt.Sprintf("d.%sOr(%q, %s, %s)", f.Type, wire, v, def)
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (h *Header) append(b *bytes.Buffer, name string, short bool) {
	fmt.Fprintf(b, "\n// AppendFields writes the ext fields; see package command.\nfunc (h *%s) AppendFields(w *command.Writer) {\n", name)
	for _, f := range h.Fields {
		wire := f.Wire
		if short {
			wire = f.Letter
		}
		field := "h." + f.Name
		switch {
		case f.isText():
			method := "String"
			if f.Type == "bytes" {
				method = "Bytes"
			}
			if f.Mode == "optional" {
				fmt.Fprintf(b, "if len(%s) > 0 {\nw.%s(%q, %s)\n}\n", field, method, wire, field)
			} else {
				fmt.Fprintf(b, "w.%s(%q, %s)\n", method, wire, field)
			}
		case f.Mode == "optional":
			fmt.Fprintf(b, "if %s.Set {\n%s\n}\n", field, f.writeNumber(wire, field+".Value"))
		default:
			fmt.Fprintln(b, f.writeNumber(wire, field))
		}
	}
	if h.RPC {
		if short {
			fmt.Fprintf(b, "h.RPC.append(w, \"%c\")\n", brokerLetter)
		} else {
			b.WriteString("h.RPC.append(w, \"bname\")\n")
		}
	}
	b.WriteString("}\n")
}

func (f *HeaderField) writeNumber(wire, value string) string {
	switch f.Type {
	case "bool":
		return fmt.Sprintf("w.Bool(%q, %s)", wire, value)
	case "int32":
		return fmt.Sprintf("w.Int(%q, int64(%s))", wire, value)
	}
	return fmt.Sprintf("w.Int(%q, %s)", wire, value)
}
