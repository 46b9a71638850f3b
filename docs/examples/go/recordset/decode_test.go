package recordset

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

type row struct {
	Txid      int64
	Payload   string
	Key       *string
	Headers   map[string]string
	EventTime *int64 `json:"event_time"`
}

type vector struct {
	Name, File, Refused string
	Sets                []struct {
		Kind           int
		FirstSlot      int64 `json:"first_slot"`
		Position       int64
		ProducersEntry int64 `json:"producers_entry"`
		CreatedMs      int64 `json:"created_ms"`
		Producer       *string
		FirstSequence  *int64 `json:"first_sequence"`
		Traceparent    *string
		RawCRC         string `json:"raw_crc"`
		Records        []row
	}
}

func TestVectors(t *testing.T) {
	folder := os.Getenv("VECTORS")
	text, err := os.ReadFile(filepath.Join(folder, "vectors.json"))
	if err != nil {
		t.Skip("VECTORS does not name the folder of the vectors: ", err)
	}
	var index struct{ Vectors []vector }
	if err := json.Unmarshal(text, &index); err != nil || len(index.Vectors) < 50 {
		t.Fatalf("%d vectors: %v", len(index.Vectors), err)
	}
	for _, v := range index.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			entry, err := os.ReadFile(filepath.Join(folder, v.File))
			if err != nil {
				t.Fatal(err)
			}
			sets, err := Decode(entry)
			refusals := map[string]error{"corrupt": ErrCorrupt, "foreign-data": ErrForeign}
			if v.Refused != "" {
				if !errors.Is(err, refusals[v.Refused]) {
					t.Fatalf("got %v, the vector is refused as %s", err, v.Refused)
				}
				return
			}
			if err != nil || len(sets) != len(v.Sets) {
				t.Fatalf("%d sets, %v", len(sets), err)
			}
			for i, want := range v.Sets {
				compare(t, &sets[i], fmt.Sprint(want.Kind, want.FirstSlot, want.Position,
					want.ProducersEntry, want.CreatedMs, want.RawCRC, text0(want.Traceparent),
					text0(want.Producer)), want.FirstSequence, want.Records)
			}
		})
	}
}

func compare(t *testing.T, set *Set, want string, first *int64, rows []row) {
	got := fmt.Sprint(set.Kind, set.FirstSlot, set.Position, set.ProducersEntry, set.CreatedMs,
		fmt.Sprintf("%08x", set.RawCRC), set.Traceparent, hex.EncodeToString(set.Producer))
	if got != want || first != nil && *first != set.FirstSequence {
		t.Errorf("got  %s %d\nwant %s", got, set.FirstSequence, want)
	}
	var decoded []row
	for _, record := range set.Records {
		one := row{Txid: record.Txid, Payload: hex.EncodeToString(record.Payload), EventTime: record.EventTime}
		if record.Key != nil {
			key := hex.EncodeToString(record.Key)
			one.Key = &key
		}
		for name, value := range record.Headers {
			if one.Headers == nil {
				one.Headers = map[string]string{}
			}
			one.Headers[name] = hex.EncodeToString(value)
		}
		decoded = append(decoded, one)
	}
	for i := range rows {
		if len(rows[i].Headers) == 0 {
			rows[i].Headers = nil
		}
	}
	if !reflect.DeepEqual(decoded, rows) {
		t.Errorf("got  %+v\nwant %+v", decoded, rows)
	}
}

func text0(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
