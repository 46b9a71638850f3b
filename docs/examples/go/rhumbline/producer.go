package rhumbline

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "example.com/rhumbline/rhumblinev1"
)

const (
	setsInFlight   = 64
	setRecordsMax  = 500
	setBytesMax    = 256 << 10
	appendDeadline = 30 * time.Second
)

// ErrClosed is returned by a producer or reader that was closed.
var ErrClosed = errors.New("rhumbline: closed")

// ErrOutcomeUnknown is joined with the cause if a record may or may not be in the stream.
var ErrOutcomeUnknown = errors.New("rhumbline: the record may have been appended")

// Producer appends records in order. It numbers them, so that a record is stored once although it may
// be sent several times. Its methods may be called by any number of goroutines.
type Producer struct {
	client            *Client
	namespace, stream string
	id                []byte
	appends           chan *Pending
	closing           chan struct{}
	closeOnce         sync.Once
	done              chan struct{}
	failure           error // readable once done is closed
	sequence          int64
}

// Pending is a record that is being appended.
type Pending struct {
	payload    []byte
	attributes *pb.RecordAttributes
	settled    chan struct{}
	position   *pb.Position
	err        error
}

// Position waits until the record is durable and returns where it is. The position is nil if the record
// is certainly in the stream, and the proxy did not find where.
func (p *Pending) Position(ctx context.Context) (*pb.Position, error) {
	select {
	case <-p.settled:
		return p.position, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Producer returns a producer with a new id.
func (c *Client) Producer(namespace, stream string) *Producer {
	p := &Producer{
		client: c, namespace: namespace, stream: stream, id: make([]byte, 16),
		appends: make(chan *Pending), closing: make(chan struct{}), done: make(chan struct{}),
	}
	rand.Read(p.id)
	go p.run()
	return p
}

// Append hands a record over. It waits while too many records are in flight. The attributes are its key,
// headers and event time, or nil.
func (p *Producer) Append(
	ctx context.Context, payload []byte, attributes *pb.RecordAttributes,
) (*Pending, error) {
	pending := &Pending{payload: payload, attributes: attributes, settled: make(chan struct{})}
	select {
	case p.appends <- pending:
		return pending, nil
	case <-p.done:
		return nil, errors.Join(ErrClosed, p.failure)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close waits until every record is appended or has failed.
func (p *Producer) Close() error {
	p.closeOnce.Do(func() { close(p.closing) })
	<-p.done
	return p.failure
}

// set is a record set: records with consecutive numbers.
type set struct {
	first    int64
	records  []*Pending
	deadline time.Time
	sent     bool // whether it may have arrived
}

func (s *set) settle(position *pb.Position, err error) {
	for i, record := range s.records {
		if position != nil {
			record.position = &pb.Position{
				Lssn: position.Lssn, EntryId: position.EntryId, Slot: position.Slot + int64(i),
				StreamId: position.StreamId,
			}
		}
		record.err = err
		close(record.settled)
	}
}

// run sends sets to one proxy after the other. A failed call settles every set in flight, so each call
// begins with all sets that have no position yet, in order.
func (p *Producer) run() {
	defer close(p.done)
	route := route{client: p.client, role: "write"}
	var sets []*set
	for {
		if len(sets) == 0 {
			select {
			case first := <-p.appends:
				sets = append(sets, p.gather(first))
			case <-p.closing:
				return
			}
		}
		var err error
		if sets, err = p.serve(&route, sets); err == nil {
			return
		}
		if len(sets) == 0 { // an idle call ended, and nothing was lost
			route.address = ""
			continue
		}
		ctx, cancel := context.WithDeadline(context.Background(), sets[0].deadline)
		p.failure = route.failed(ctx, errorOf(err))
		cancel()
		if p.failure != nil {
			for _, s := range sets {
				if s.sent {
					s.settle(nil, errors.Join(ErrOutcomeUnknown, p.failure))
				} else {
					s.settle(nil, p.failure)
				}
			}
			return
		}
	}
}

// gather makes a set of the first record and of those that wait behind it.
func (p *Producer) gather(first *Pending) *set {
	s := &set{first: p.sequence, deadline: time.Now().Add(appendDeadline)}
	for size, next := 0, first; next != nil; {
		s.records = append(s.records, next)
		size += len(next.payload) + proto.Size(next.attributes)
		next = nil
		if len(s.records) < setRecordsMax && size < setBytesMax {
			select {
			case next = <-p.appends:
			default:
			}
		}
	}
	p.sequence += int64(len(s.records))
	return s
}

// serve makes one append call. It returns the sets without a result and why the call ended; no error if
// the producer is closed and every set has a result.
func (p *Producer) serve(route *route, sets []*set) ([]*set, error) {
	address := route.next()
	stub, err := p.client.stub(address)
	if err != nil {
		return sets, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call, err := stub.Append(ctx)
	if err != nil {
		return sets, err
	}
	answers, ended := receive(ctx, call.Recv)
	requests := make(chan *pb.AppendRequest, 2*setsInFlight) // never full
	go sendAll(ctx, requests, call.Send)
	for i, s := range sets {
		item := p.item(s)
		if item.Restarts = i == 0; item.Restarts {
			item.Tried = route.tried
		}
		requests <- p.request(item)
	}
	health := make(chan pb.ProxyHealth)
	ask := func() {
		select {
		case health <- p.client.health(ctx, address):
		case <-ctx.Done():
		}
	}
	silence := silence{ticked: time.Now(), heard: time.Now()}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	closing := p.closing
	for closing != nil || len(sets) > 0 {
		appends := p.appends
		if len(sets) >= setsInFlight {
			appends = nil
		}
		select {
		case first := <-appends:
			if len(sets) == 0 {
				silence.heard = time.Now()
			}
			s := p.gather(first)
			sets = append(sets, s)
			requests <- p.request(p.item(s))
		case response := <-answers:
			silence.heard = time.Now()
			if sets, err = settle(sets, response); err != nil {
				return sets, err
			}
			if len(response.Answers) > 0 {
				route.served()
			}
		case err := <-ended:
			return sets, err
		case found := <-health:
			if found == pb.ProxyHealth_PROXY_HEALTH_LOST {
				return sets, silent("the proxy is lost")
			}
			silence.onAnswer(time.Now(), found == pb.ProxyHealth_PROXY_HEALTH_ALIVE)
		case <-ticker.C:
			now := time.Now()
			silence.onTick(now)
			switch {
			case len(sets) == 0:
				continue
			case now.After(sets[0].deadline):
				return sets, context.DeadlineExceeded
			case silence.isOver(now):
				return sets, silent("the proxy is silent")
			}
			if silence.takePing(now) && len(requests) == 0 {
				requests <- &pb.AppendRequest{}
			}
			if silence.takeQuestion(now) {
				go ask()
			}
		case <-closing:
			closing = nil
		}
	}
	return nil, nil
}

// sendAll sends requests until the call ends. Errors are ignored: receiving returns what is left of the
// answers, and then the reason.
func sendAll(
	ctx context.Context, requests <-chan *pb.AppendRequest, send func(*pb.AppendRequest) error,
) {
	for {
		select {
		case request := <-requests:
			_ = send(request)
		case <-ctx.Done():
			return
		}
	}
}

func silent(message string) error { return &Error{Status: codes.Unavailable, Message: message} }

func (p *Producer) request(item *pb.AppendItem) *pb.AppendRequest {
	return &pb.AppendRequest{Items: []*pb.AppendItem{item}, ClientRegion: p.client.ownRegion()}
}

func (p *Producer) item(s *set) *pb.AppendItem {
	s.sent = true
	item := &pb.AppendItem{
		Id: uint64(s.first), Namespace: p.namespace, Stream: p.stream,
		Producer: p.id, FirstSequence: s.first,
	}
	none := true
	for _, record := range s.records {
		item.Payloads = append(item.Payloads, record.payload)
		item.Attributes = append(item.Attributes, record.attributes)
		none = none && record.attributes == nil
	}
	if none {
		item.Attributes = nil
	}
	return item
}

// settle notes the answers of a response. It returns the sets that have none yet, and the first refusal.
func settle(sets []*set, response *pb.AppendResponse) ([]*set, error) {
	var refused error
	for _, answer := range response.Answers {
		for i, id := range answer.Ids {
			at := slices.IndexFunc(sets, func(s *set) bool { return uint64(s.first) == id })
			if at < 0 {
				continue
			}
			var position *pb.Position
			if answer.Error == nil {
				position = &pb.Position{
					Lssn: answer.Lssns[i], EntryId: answer.EntryIds[i], Slot: answer.Slots[i],
					StreamId: answer.StreamId,
				}
			} else if failure := refusal(answer.Error); failure.step() != stored {
				sets[at].sent = failure.Code == "append-outcome-unknown"
				if refused == nil {
					refused = failure
				}
				continue
			}
			sets[at].settle(position, nil)
			sets = slices.Delete(sets, at, at+1)
		}
	}
	return sets, refused
}
