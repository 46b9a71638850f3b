// Package recordset decodes the entries of a stream, as a read without decoded records returns them.
// It was written from the page "Storage formats" and is tested with its vectors.
package recordset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

const (
	headerBytes   = 96
	extensionMax  = 4096
	rawMax        = 16 << 20
	requiredTags  = 0x8000
	eventTimesTag = 0x8001
	keysTag       = 0x8002
	headersTag    = 0x8003
	traceTag      = 1
	flagTxids     = 1
	flagRequired  = 2
)

// ErrCorrupt is wrapped by every error about an entry that is not what a writer writes.
var ErrCorrupt = errors.New("corrupt")

// ErrForeign is wrapped by the error about a required tag of a later version.
var ErrForeign = errors.New("foreign-data")

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	unpacker   *zstd.Decoder
)

func init() {
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(rawMax))
}

// Set is a record set.
type Set struct {
	Kind           int // 0: data; others are hidden from applications
	FirstSlot      int64
	Position       int64
	ProducersEntry int64
	CreatedMs      int64
	Producer       []byte // nil if the producer does not number its records
	FirstSequence  int64
	Traceparent    string
	RawCRC         uint32
	Records        []Record
}

// Record is one record. Its key is nil if it has none, and so is its event time.
type Record struct {
	Txid      int64
	Payload   []byte
	Key       []byte
	Headers   map[string][]byte
	EventTime *int64
}

func corrupt(format string, values ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, values...))
}

// Decode returns the record sets of an entry.
func Decode(entry []byte) ([]Set, error) {
	var sets []Set
	slot := int64(0)
	for len(entry) > 0 || len(sets) == 0 {
		set, size, err := decodeSet(entry)
		if err != nil {
			return nil, err
		}
		set.FirstSlot = slot
		slot += int64(len(set.Records))
		sets = append(sets, *set)
		entry = entry[size:]
	}
	return sets, nil
}

func decodeSet(entry []byte) (*Set, int, error) {
	le := binary.LittleEndian
	if len(entry) < headerBytes {
		return nil, 0, corrupt("%d bytes are fewer than a header", len(entry))
	}
	if string(entry[:4]) != "RhRS" || entry[4] != 1 {
		return nil, 0, corrupt("magic or version")
	}
	kind, codec, flags := int(entry[5]), entry[6], entry[7]
	count, extensionBytes := int(le.Uint32(entry[8:])), int(le.Uint32(entry[12:]))
	rawBytes, storedBytes := int(le.Uint32(entry[16:])), int(le.Uint32(entry[20:]))
	end := headerBytes + extensionBytes + storedBytes
	if extensionBytes > extensionMax || rawBytes > rawMax || end > len(entry) {
		return nil, 0, corrupt("sizes")
	}
	extension := entry[headerBytes : headerBytes+extensionBytes]
	crc := crc32.Update(crc32.Checksum(entry[:92], castagnoli), castagnoli, extension)
	if crc != le.Uint32(entry[92:]) {
		return nil, 0, corrupt("checksum of the header")
	}
	signed := func(at int) int64 { return int64(le.Uint64(entry[at:])) }
	firstTxid, lastTxid := signed(24), signed(32)
	set := &Set{
		Kind: kind, Position: signed(40), ProducersEntry: signed(48), CreatedMs: signed(56),
		RawCRC: le.Uint32(entry[88:]), FirstSequence: -1,
	}
	if producer := entry[64:80]; !bytes.Equal(producer, make([]byte, 16)) {
		set.Producer, set.FirstSequence = producer, signed(80)
	}
	body, err := unpack(codec, entry[end-storedBytes:end], rawBytes)
	if err != nil {
		return nil, 0, err
	}
	if len(body) != rawBytes || crc32.Checksum(body, castagnoli) != set.RawCRC {
		return nil, 0, corrupt("checksum of the body")
	}
	hasTxids := flags&flagTxids != 0
	switch {
	case count < 1 || count > rawBytes || flags&^(flagTxids|flagRequired) != 0,
		set.Position < 0 || set.ProducersEntry < -1,
		kind == 0 && (firstTxid < 1 || lastTxid < firstTxid),
		kind != 0 && (firstTxid < 0 || count != 1),
		hasTxids != (firstTxid != lastTxid):
		return nil, 0, corrupt("the header contradicts itself")
	}
	set.Records = make([]Record, count)
	r := &reader{body: body}
	for i := range set.Records {
		set.Records[i].Txid = firstTxid
		if hasTxids {
			set.Records[i].Txid = int64(r.u64())
			if i > 0 && set.Records[i].Txid < set.Records[i-1].Txid {
				return nil, 0, corrupt("txids fall")
			}
		}
	}
	if set.Records[0].Txid != firstTxid || set.Records[count-1].Txid != lastTxid {
		return nil, 0, corrupt("txids differ from the header's")
	}
	if err := set.readExtension(extension, flags, r); err != nil {
		return nil, 0, err
	}
	payloads := r.strings(count)
	if r.failed || r.at != len(body) {
		return nil, 0, corrupt("offsets of payloads")
	}
	for i, payload := range payloads {
		set.Records[i].Payload = payload
	}
	return set, end, nil
}

func unpack(codec byte, stored []byte, rawBytes int) ([]byte, error) {
	switch codec {
	case 0:
		return stored, nil
	case 1:
		var frame zstd.Header
		if err := frame.Decode(stored); err != nil || !frame.HasFCS || frame.FrameContentSize != uint64(rawBytes) {
			return nil, corrupt("the frame does not name the size of the body")
		}
		body, err := unpacker.DecodeAll(stored, nil)
		if err != nil {
			return nil, corrupt("zstd: %v", err)
		}
		return body, nil
	}
	return nil, corrupt("codec %d", codec)
}

// readExtension reads the tags, and the columns of attributes for which required tags stand.
func (s *Set) readExtension(extension []byte, flags byte, r *reader) error {
	le := binary.LittleEndian
	previous, hasRequired := 0, flags&flagRequired != 0
	for len(extension) > 0 {
		if len(extension) < 4 || len(extension) < 4+int(le.Uint16(extension[2:])) {
			if hasRequired {
				return corrupt("extension area")
			}
			return nil // nothing that must be understood
		}
		tag, size := int(le.Uint16(extension)), int(le.Uint16(extension[2:]))
		value := extension[4 : 4+size]
		extension = extension[4+size:]
		if tag == traceTag {
			s.Traceparent = string(value)
		}
		if tag < requiredTags || !hasRequired {
			continue
		}
		if tag > headersTag || tag == requiredTags {
			return fmt.Errorf("%w: required tag %#x", ErrForeign, tag)
		}
		if size != 4 || tag <= previous {
			return corrupt("tag of a column")
		}
		previous = tag
		end := r.at + int(le.Uint32(value))
		if end > len(r.body) || end-r.at < 8 || (end-r.at)%8 != 0 {
			return corrupt("size of a column")
		}
		column := &reader{body: r.body[:end], at: r.at}
		s.readColumn(tag, column)
		if column.failed || column.at != end {
			return corrupt("column %#x", tag)
		}
		r.at = end
	}
	if hasRequired && previous == 0 {
		return corrupt("flag without required tags")
	}
	return nil
}

func (s *Set) readColumn(tag int, r *reader) {
	count := len(s.Records)
	absent, pairs := int(r.u32()), int(r.u32())
	has := func(int) bool { return true }
	if absent > 0 {
		bitmap, set := r.take((count+7)/8), 0
		for _, one := range bitmap {
			set += bits.OnesCount8(one)
		}
		r.pad()
		if r.failed || set != count-absent || absent >= count || count%8 != 0 && bitmap[count/8]>>(count%8) != 0 {
			r.failed = true
			return
		}
		has = func(i int) bool { return bitmap[i/8]>>(i%8)&1 == 1 }
	}
	if tag != headersTag && pairs != 0 {
		r.failed = true
	}
	switch tag {
	case eventTimesTag:
		for i := range s.Records {
			if time := int64(r.u64()); has(i) {
				s.Records[i].EventTime = &time
			} else if time != 0 {
				r.failed = true
			}
		}
	case keysTag:
		for i, key := range r.paddedStrings(count) {
			if has(i) {
				s.Records[i].Key = key
			} else if len(key) > 0 {
				r.failed = true
			}
		}
	case headersTag:
		firsts := make([]int, count+1)
		for i := range firsts {
			firsts[i] = int(int32(r.u32()))
		}
		r.pad()
		names, values := r.paddedStrings(pairs), r.paddedStrings(pairs)
		if r.failed || firsts[0] != 0 || firsts[count] != pairs {
			r.failed = true
			return
		}
		for i := range s.Records {
			if firsts[i] > firsts[i+1] || firsts[i+1] > pairs || has(i) != (firsts[i] < firsts[i+1]) {
				r.failed = true
				return
			}
			for at := firsts[i]; at < firsts[i+1]; at++ {
				if s.Records[i].Headers == nil {
					s.Records[i].Headers = map[string][]byte{}
				}
				s.Records[i].Headers[string(names[at])] = values[at]
			}
		}
	}
}

// reader reads a body; it notes that something did not fit, and then returns zeros.
type reader struct {
	body   []byte
	at     int
	failed bool
}

func (r *reader) take(size int) []byte {
	if size < 0 || size > len(r.body)-r.at {
		r.failed = true
		return nil
	}
	r.at += size
	return r.body[r.at-size : r.at : r.at]
}

func (r *reader) u32() uint32 {
	if part := r.take(4); part != nil {
		return binary.LittleEndian.Uint32(part)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if part := r.take(8); part != nil {
		return binary.LittleEndian.Uint64(part)
	}
	return 0
}

func (r *reader) pad() {
	for _, one := range r.take(-r.at & 7) {
		r.failed = r.failed || one != 0
	}
}

func (r *reader) strings(count int) [][]byte {
	if count < 0 || count >= len(r.body) {
		r.failed = true
		return nil
	}
	offsets := make([]int, count+1)
	for i := range offsets {
		offsets[i] = int(int32(r.u32()))
		if offsets[i] < 0 || i > 0 && offsets[i] < offsets[i-1] || i == 0 && offsets[0] != 0 {
			r.failed = true
		}
	}
	if r.failed {
		return nil
	}
	blob := r.take(offsets[count])
	if r.failed {
		return nil
	}
	found := make([][]byte, count)
	for i := range found {
		found[i] = blob[offsets[i]:offsets[i+1]:offsets[i+1]]
	}
	return found
}

func (r *reader) paddedStrings(count int) [][]byte {
	found := r.strings(count)
	r.pad()
	return found
}
