package rhumbline

import (
	"os"
	"regexp"
	"testing"

	"google.golang.org/grpc/codes"

	pb "example.com/rhumbline/rhumblinev1"
)

var row = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| [A-Z_]+ \\| (yes|no) \\| ([a-z ,]+) \\|$")

// The client takes the step of the table for every error code of the page "gRPC API".
func TestStepsAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile(os.Getenv("GRPC_PAGE"))
	if err != nil {
		t.Skip("GRPC_PAGE does not name the page: ", err)
	}
	names := map[string]step{
		"owner": owner, "another": another, "here": here, "here, later": here, "stored": stored,
		"give up": giveUp,
	}
	rows := row.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 50 {
		t.Fatalf("the page has %d codes", len(rows))
	}
	for _, found := range rows {
		failure := refusal(&pb.Error{Code: found[1], Retryable: found[2] == "yes"})
		if want, ok := names[found[3]]; !ok || failure.step() != want {
			t.Errorf("%s: step %d, the page says %q", found[1], failure.step(), found[3])
		}
	}
}

func TestUnknownCodeIsDecidedByRetryable(t *testing.T) {
	if (&Error{Code: "new", Retryable: true}).step() != another || (&Error{Code: "new"}).step() != giveUp {
		t.Error("an unknown code is not decided by `retryable`")
	}
	if (&Error{Status: codes.Unavailable}).step() != another {
		t.Error("a broken connection is not followed by another proxy")
	}
}

func TestRefusedSetsStayInOrder(t *testing.T) {
	sets := []*set{{first: 0, sent: true}, {first: 2, sent: true}, {first: 5, sent: true}}
	left, err := settle(sets, &pb.AppendResponse{Answers: []*pb.AppendAnswer{
		{Ids: []uint64{2}, Lssns: []int64{1}, EntryIds: []int64{7}, Slots: []int64{0}},
		{Ids: []uint64{0}, Error: &pb.Error{Code: "not-owner", Owner: "b:1"}},
	}})
	if len(left) != 2 || left[0].first != 0 || left[1].first != 5 {
		t.Errorf("left: %v", left)
	}
	if failure := errorOf(err); failure.step() != owner || failure.Owner != "b:1" {
		t.Errorf("refusal: %v", failure)
	}
	if left[0].sent || !left[1].sent {
		t.Error("a set that was refused is not in the stream; one without answer may be")
	}
}
