package rhumbline

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "example.com/rhumbline/rhumblinev1"
)

const (
	creditRecords   = 1000
	creditBytes     = 4 << 20
	heartbeat       = time.Second
	readSilenceMax  = 3500 * time.Millisecond
	readUnavailable = time.Minute // time without any response after which Next returns the error
)

// Reader reads the records of a stream in order. It is for one goroutine.
type Reader struct {
	client   *Client
	first    *pb.ReadRequest
	position *pb.Position // of the next record; nil until it is known
	route    route
	call     *readCall
	records  []*pb.Record // received, not returned yet
	count    int64        // consumed since credit was granted last
	bytes    int64
	failing  time.Time // of the first failure since the last response
}

type readCall struct {
	stream    grpc.BidiStreamingClient[pb.ReadRequest, pb.ReadResponse]
	responses chan *pb.ReadResponse
	ended     chan error
	cancel    context.CancelFunc
}

// Reader returns a reader of the records from a position on; nil: from the earliest one. The Position of
// another reader, stored anywhere, is such a position.
func (c *Client) Reader(namespace, stream string, from *pb.Position) *Reader {
	return &Reader{
		client: c, position: from, route: route{client: c, role: "read"},
		first: &pb.ReadRequest{Namespace: namespace, Stream: stream},
	}
}

// Position returns the position after the last record that Next returned, to be stored with what the
// application made of it. It is nil if nothing was read yet and none was given.
func (r *Reader) Position() *pb.Position { return r.position }

// Next waits for the next record. It returns io.EOF at the end of a stream that was ended.
func (r *Reader) Next(ctx context.Context) (*pb.Record, error) {
	for len(r.records) == 0 {
		err := r.receive(ctx)
		if err == nil || err == io.EOF || ctx.Err() != nil {
			r.failing = time.Time{}
			if err != nil {
				return nil, err
			}
			continue
		}
		r.Close()
		if r.failing.IsZero() {
			r.failing = time.Now()
		}
		if time.Since(r.failing) > readUnavailable {
			return nil, err
		}
		if err := r.route.failed(ctx, errorOf(err)); err != nil {
			return nil, err
		}
	}
	record := r.records[0]
	r.records = r.records[1:]
	r.position = proto.Clone(record.Position).(*pb.Position)
	r.position.Slot++
	r.count++
	r.bytes += int64(len(record.Payload) + len(record.Key))
	for _, header := range record.Headers {
		r.bytes += int64(len(header.Name) + len(header.Value))
	}
	return record, nil
}

// Close ends the call. A later Next continues at the same position.
func (r *Reader) Close() {
	if r.call != nil {
		r.call.cancel()
		r.call, r.records = nil, nil
	}
}

// receive waits for one response. Every error but io.EOF means that the call is over.
func (r *Reader) receive(ctx context.Context) error {
	if r.call == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	if 2*r.count >= creditRecords || 2*r.bytes >= creditBytes {
		grant := &pb.ReadRequest{CreditRecords: r.count, CreditBytes: r.bytes}
		r.count, r.bytes = 0, 0
		_ = r.call.stream.Send(grant) // Recv returns the reason of a failure
	}
	select {
	case response := <-r.call.responses:
		if response.Start != nil && r.position == nil {
			r.position = response.Start.Position
		}
		if response.IsEnd {
			return io.EOF
		}
		r.records = response.Records
		r.route.served()
		return nil
	case err := <-r.call.ended:
		if err == io.EOF { // the proxy stops
			return errorOf(err)
		}
		return err
	case <-time.After(readSilenceMax):
		return &Error{Status: codes.DeadlineExceeded, Message: "the proxy sends no heartbeats"}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Reader) open() error {
	stub, err := r.client.stub(r.route.next())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := stub.Read(ctx)
	if err != nil {
		cancel()
		return err
	}
	request := proto.Clone(r.first).(*pb.ReadRequest)
	request.DecodesRecords = true
	request.CreditRecords, request.CreditBytes = creditRecords, creditBytes
	request.HeartbeatMs = int32(heartbeat.Milliseconds())
	request.Tried = r.route.tried
	if r.position != nil {
		request.Start = &pb.ReadRequest_Position{Position: r.position}
	}
	responses, ended := receive(ctx, stream.Recv)
	r.call = &readCall{stream, responses, ended, cancel}
	r.count, r.bytes = 0, 0
	_ = stream.Send(request) // Recv returns the reason of a failure
	return nil
}
