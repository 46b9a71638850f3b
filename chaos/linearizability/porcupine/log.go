package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// Position of a record in a stream: segment, entry and slot. Positions are ordered.
type Position [3]int64

func (p Position) before(other Position) bool {
	for part := range p {
		if p[part] != other[part] {
			return p[part] < other[part]
		}
	}
	return false
}

func (p Position) String() string {
	return fmt.Sprintf("%d-%d-%d", p[0], p[1], p[2])
}

// Record of a stream. Tokens are unique.
type Record struct {
	At    Position `json:"at"`
	Token string   `json:"token"`
	// After is where the record before it is, among all that were acknowledged or read. Positions
	// increase, so every order that the specification permits appends them in this order. Saying so
	// here spares the search all other orders.
	After *Position `json:"after"`
}

// Operation of one caller on one stream. Times are nanoseconds of the run.
//
//   - append: Records were appended together. With Expected, the stream had to end there: no record
//     was at or above that position.
//   - read: Records holds the first record at or above Start.
//   - end: there was no record at or above Start.
type Operation struct {
	Kind     string    `json:"kind"`
	Client   int       `json:"client"`
	Called   int64     `json:"called"`
	Returned int64     `json:"returned"`
	Start    Position  `json:"start"`
	Expected *Position `json:"expected"`
	Records  []Record  `json:"records"`
}

func (o Operation) String() string {
	switch o.Kind {
	case "append":
		text := fmt.Sprintf("append of %s at %s", o.Records[0].Token, o.Records[0].At)
		if len(o.Records) > 1 {
			text += fmt.Sprintf(" and %d more", len(o.Records)-1)
		}
		if o.Expected != nil {
			text += fmt.Sprintf(", expecting the end at %s", o.Expected)
		}
		return text
	case "read":
		return fmt.Sprintf("read from %s returned %s at %s", o.Start, o.Records[0].Token, o.Records[0].At)
	default:
		return fmt.Sprintf("read from %s returned the end", o.Start)
	}
}

// state of a stream: its last record and the state before that record was appended. The empty
// stream is nil. States are shared and never change.
type state struct {
	last   Record
	before *state
}

func (s *state) isEmptyFrom(from Position) bool {
	return s == nil || s.last.At.before(from)
}

// endsWith returns whether a record at this position is the last one; nil: whether there is none.
func (s *state) endsWith(at *Position) bool {
	if s == nil || at == nil {
		return s == nil && at == nil
	}
	return s.last.At == *at
}

// next returns the first record at or above a position.
func (s *state) next(from Position) (Record, bool) {
	var found Record
	is := false
	for ; s != nil && !s.last.At.before(from); s = s.before {
		found, is = s.last, true
	}
	return found, is
}

func (s *state) append(records []Record) (*state, bool) {
	for _, record := range records {
		if !s.isEmptyFrom(record.At) || !s.endsWith(record.After) {
			return nil, false
		}
		s = &state{record, s}
	}
	return s, true
}

// step returns whether the operation is possible in a state, and the state after it.
func step(before *state, operation Operation) (bool, *state) {
	switch operation.Kind {
	case "append":
		if operation.Expected != nil && !before.isEmptyFrom(*operation.Expected) {
			return false, before
		}
		after, ok := before.append(operation.Records)
		return ok, after
	case "read":
		found, ok := before.next(operation.Start)
		wanted := operation.Records[0]
		return ok && found.At == wanted.At && found.Token == wanted.Token, before
	case "end":
		return before.isEmptyFrom(operation.Start), before
	default:
		panic("unknown kind of operation: " + operation.Kind)
	}
}

// log is the sequential specification of a stream: an append-only log with ordered positions.
var log = porcupine.Model{
	Init: func() any { return (*state)(nil) },
	Step: func(before, input, _ any) (bool, any) {
		ok, after := step(before.(*state), input.(Operation))
		return ok, after
	},
	Equal: func(one, other any) bool {
		a, b := one.(*state), other.(*state)
		for a != b {
			if a == nil || b == nil || a.last.At != b.last.At || a.last.Token != b.last.Token {
				return false
			}
			a, b = a.before, b.before
		}
		return true
	},
	DescribeOperation: func(input, _ any) string { return input.(Operation).String() },
}
