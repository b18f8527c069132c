package fastjson

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// field is one member of a struct.
type field struct {
	name      string
	quoted    []byte // "name":
	index     []int
	omitEmpty bool
	zeroer    bool // the type has IsZero
}

// plan is what is known about a struct type: its members in alphabetical order.
type plan struct {
	fields []field
	byName map[string]*field
}

var zeroerType = reflect.TypeFor[interface{ IsZero() bool }]()

var plans sync.Map // reflect.Type -> *plan

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := &plan{byName: make(map[string]*field)}
	p.add(t, nil)
	slices.SortFunc(p.fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	for i := range p.fields {
		p.byName[p.fields[i].name] = &p.fields[i]
	}
	actual, _ := plans.LoadOrStore(t, p)
	return actual.(*plan)
}

// add collects the members of t; embedded structs are Java's super classes.
func (p *plan) add(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(at), i)
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct {
			p.add(f.Type, index)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = strings.ToLower(f.Name[:1]) + f.Name[1:]
		}
		p.fields = append(p.fields, field{
			name:      name,
			quoted:    append(appendString(nil, name), ':'),
			index:     index,
			omitEmpty: options == "omitempty",
			zeroer:    f.Type.Implements(zeroerType),
		})
	}
}
