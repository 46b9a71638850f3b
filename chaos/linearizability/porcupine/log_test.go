package main

import "testing"

func at(entry int64) Position { return Position{1, entry, 0} }

func appended(token string, entry, called, returned int64) Operation {
	return Operation{
		Kind: "append", Called: called, Returned: returned,
		Records: []Record{{At: at(entry), Token: token}},
	}
}

// after says which records are before that of an append, as the history would.
func after(operation Operation, entry int64) Operation {
	before := at(entry)
	operation.Records[0].After = &before
	return operation
}

func read(from int64, token string, entry, called, returned int64) Operation {
	return Operation{
		Kind: "read", Called: called, Returned: returned, Start: at(from),
		Records: []Record{{At: at(entry), Token: token}},
	}
}

func end(from, called, returned int64) Operation {
	return Operation{Kind: "end", Called: called, Returned: returned, Start: at(from)}
}

func expecting(operation Operation, entry int64) Operation {
	expected := at(entry)
	operation.Expected = &expected
	return operation
}

func TestVerdicts(t *testing.T) {
	cases := map[string]struct {
		operations []Operation
		verdict    string
	}{
		"reads follow concurrent appends": {[]Operation{
			after(appended("b", 1, 0, 9), 0), appended("a", 0, 1, 8),
			read(0, "a", 0, 2, 3), read(1, "b", 1, 3, 4), end(2, 10, 11),
		}, "Ok"},
		"positions may have gaps": {[]Operation{
			appended("a", 0, 0, 1), after(appended("b", 7, 2, 3), 0), read(1, "b", 7, 4, 5),
		}, "Ok"},
		"an acknowledged record is lost": {[]Operation{
			appended("a", 0, 0, 1), end(0, 2, 3),
		}, "Illegal"},
		"a reader skips a record": {[]Operation{
			appended("a", 0, 0, 1), after(appended("b", 1, 2, 3), 0), read(0, "b", 1, 4, 5),
		}, "Illegal"},
		"a record is read before its append": {[]Operation{
			read(0, "a", 0, 0, 1), appended("a", 0, 2, 3),
		}, "Illegal"},
		"a record is read that nobody appended": {[]Operation{
			appended("a", 0, 0, 1), read(0, "x", 0, 2, 3),
		}, "Illegal"},
		"readers differ": {[]Operation{
			appended("a", 0, 0, 9), appended("b", 0, 0, 9), read(0, "a", 0, 2, 3), read(0, "b", 0, 2, 3),
		}, "Illegal"},
		"an append is placed before one that was acknowledged earlier": {[]Operation{
			after(appended("a", 5, 0, 1), 3), appended("b", 3, 2, 3),
		}, "Illegal"},
		"a conditional append is at its end": {[]Operation{
			appended("a", 0, 0, 1), expecting(after(appended("b", 1, 2, 3), 0), 1),
		}, "Ok"},
		"a conditional append follows another record": {[]Operation{
			appended("a", 0, 0, 1), expecting(after(appended("b", 1, 2, 3), 0), 0),
		}, "Illegal"},
	}
	for name, found := range cases {
		if verdict := judge(History{name, found.operations}); verdict.Verdict != found.verdict {
			t.Errorf("%s: %s", name, verdict.Verdict)
		}
	}
}

func TestTheFirstOperationThatDoesNotFitIsNamed(t *testing.T) {
	verdict := judge(History{"", []Operation{appended("a", 0, 0, 1), end(0, 2, 3)}})
	if verdict.First != "read from 1-0-0 returned the end" {
		t.Errorf("%s", verdict.First)
	}
}
