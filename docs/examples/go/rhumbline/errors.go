package rhumbline

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "example.com/rhumbline/rhumblinev1"
)

// Error is the reason why a proxy refused a request, or why it could not be reached.
type Error struct {
	Code       string // stable, such as "no-such-stream"; empty if the error is not a proxy's
	Message    string
	Status     codes.Code
	Retryable  bool
	Owner      string // with "not-owner": the proxy to go to
	RetryAfter time.Duration
	First      *pb.Position // with "truncated": the first position that still exists
}

func (e *Error) Error() string {
	if e.Code == "" {
		return e.Status.String() + ": " + e.Message
	}
	return e.Code + ": " + e.Message
}

func refusal(e *pb.Error) *Error {
	return &Error{
		Code: e.Code, Message: e.Message, Retryable: e.Retryable, Owner: e.Owner,
		RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond, First: e.FirstActive,
	}
}

// errorOf returns the error in the details of a status.
func errorOf(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, io.EOF) {
		return &Error{Status: codes.Unavailable, Message: "the proxy ended the call"}
	}
	found := status.Convert(err)
	for _, detail := range found.Details() {
		if refused, ok := detail.(*pb.Error); ok {
			return refusal(refused)
		}
	}
	return &Error{Status: found.Code(), Message: found.Message()}
}

type step int

const (
	giveUp  step = iota
	owner        // go to the owner, or to another proxy if its address is unknown
	another      // go to another proxy
	here         // pause, and send again
	stored       // the records are in the stream; their position is not known
)

// step returns what to do next: the column of the table of error codes.
func (e *Error) step() step {
	switch e.Code {
	case "not-owner":
		return owner
	case "duplicate-record":
		return stored
	case "too-many-requests", "over-rate", "quota-exceeded":
		return here
	case "append-outcome-unknown", "unknown-outcome", "indeterminate",
		"ownership-lost", "stream-lost", "subscription-lost", "ledger-fenced", "ledger-closed":
		return another
	case "":
		return stepOf(e.Status)
	}
	if e.Retryable {
		return another
	}
	return giveUp
}

// stepOf decides by a status without details.
func stepOf(code codes.Code) step {
	switch code {
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Aborted, codes.Internal,
		codes.Unavailable:
		return another
	case codes.ResourceExhausted:
		return here
	}
	return giveUp
}
