// Package rhumbline is a small client of Rhumbline's proxies: numbered appends, and reading with flow
// control. Both survive the loss of any proxy. The rules are those of the page "gRPC API".
package rhumbline

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	pb "example.com/rhumbline/rhumblinev1"
)

const (
	listTimeout    = time.Second
	pauseMin       = 10 * time.Millisecond
	pauseMax       = 250 * time.Millisecond
	freeAttempts   = 2 // changes of the proxy without a pause
	messageMaxSize = 8 << 20
)

// Client knows the proxies of a cluster and keeps a connection to each one that it uses.
type Client struct {
	seeds   []string
	options []grpc.DialOption
	region  string

	mu         sync.Mutex
	conns      map[string]*grpc.ClientConn
	proxies    []*pb.Proxy
	refreshing bool
}

// Token identifies the caller: grpc.WithPerRPCCredentials(rhumbline.Token("...")). It needs TLS.
type Token string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t Token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (Token) RequireTransportSecurity() bool { return true }

// Dial reads the list of proxies from the first seed (host:port) that responds. Without the option
// grpc.WithTransportCredentials connections are not encrypted.
func Dial(ctx context.Context, seeds []string, options ...grpc.DialOption) (*Client, error) {
	c := &Client{seeds: seeds, options: options, conns: map[string]*grpc.ClientConn{}}
	if err := c.Refresh(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes all connections; close producers and readers first.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

// Refresh reads the list of proxies again, from any proxy that responds.
func (c *Client) Refresh(ctx context.Context) error {
	failure := errors.New("no seeds")
	for _, address := range c.candidates("", nil) {
		stub, err := c.stub(address)
		if err == nil {
			var listed *pb.ListProxiesResponse
			tryCtx, cancel := context.WithTimeout(ctx, listTimeout)
			listed, err = stub.ListProxies(tryCtx, &pb.ListProxiesRequest{ViewerRegion: c.ownRegion()})
			cancel()
			if err == nil && len(listed.Proxies) > 0 {
				c.mu.Lock()
				c.proxies = listed.Proxies
				if c.region == "" {
					c.region = listed.Region
				}
				c.mu.Unlock()
				return nil
			}
		}
		failure = err
	}
	return errorOf(failure)
}

// Call makes a unary call at one proxy after the other, until one serves it or refuses it for good.
func Call[Request, Response any](
	ctx context.Context, c *Client, request Request,
	method func(pb.RhumblineClient, context.Context, Request, ...grpc.CallOption) (Response, error),
) (Response, error) {
	route := route{client: c}
	for {
		var response Response
		stub, err := c.stub(route.next())
		if err == nil {
			tryCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
			response, err = method(stub, tryCtx, request)
			cancel()
		}
		if err == nil {
			return response, nil
		}
		if refusal := route.failed(ctx, errorOf(err)); refusal != nil {
			return response, refusal
		}
	}
}

// health asks another proxy about a silent one.
func (c *Client) health(ctx context.Context, silent string) pb.ProxyHealth {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	stub, err := c.stub(c.candidates("", []string{silent})[0])
	if err != nil {
		return pb.ProxyHealth_PROXY_HEALTH_UNKNOWN
	}
	found, err := stub.ProbeProxy(ctx, &pb.ProbeProxyRequest{Address: silent})
	if err != nil { // it may be silent too
		return pb.ProxyHealth_PROXY_HEALTH_UNKNOWN
	}
	return found.Health
}

// receive passes messages on until a call ends, or its context.
func receive[Message any](ctx context.Context, recv func() (Message, error)) (chan Message, chan error) {
	messages, ended := make(chan Message), make(chan error, 1)
	go func() {
		for {
			message, err := recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case messages <- message:
			case <-ctx.Done():
				return
			}
		}
	}()
	return messages, ended
}

// ownRegion returns the region of the nearest proxy: the first one that returned the list.
func (c *Client) ownRegion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.region
}

// refreshSoon reads the list in the background, because a proxy failed.
func (c *Client) refreshSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refreshing {
		return
	}
	c.refreshing = true
	go func() {
		_ = c.Refresh(context.Background()) // the old list is kept if no proxy responds
		c.mu.Lock()
		c.refreshing = false
		c.mu.Unlock()
	}()
}

// candidates returns the names of the proxies with a role ("": any), those of this region that accept
// streams first, then the seeds; without the ones that were tried, unless all were.
func (c *Client) candidates(role string, tried []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var near, far []string
	for _, i := range rand.Perm(len(c.proxies)) {
		proxy := c.proxies[i]
		switch {
		case role != "" && !slices.Contains(proxy.Roles, role):
		case proxy.Region == c.region && proxy.IsAccepting:
			near = append(near, proxy.Address)
		default:
			far = append(far, proxy.Address)
		}
	}
	all := append(append(near, far...), c.seeds...)
	untried := slices.DeleteFunc(slices.Clone(all), func(address string) bool {
		return slices.Contains(tried, address)
	})
	if len(untried) > 0 {
		return untried
	}
	return all
}

// stub returns the stub for a proxy. A redirect gives its name; the list, where to connect to it.
func (c *Client) stub(address string) (pb.RhumblineClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	target := address
	for _, proxy := range c.proxies {
		if proxy.Address == address && proxy.ConnectAddress != "" {
			target = proxy.ConnectAddress
		}
	}
	if conn, ok := c.conns[target]; ok {
		return pb.NewRhumblineClient(conn), nil
	}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageMaxSize)),
		grpc.WithConnectParams(grpc.ConnectParams{ // a proxy that was restarted is found soon
			Backoff:           backoff.Config{BaseDelay: pauseMin, Multiplier: 2, MaxDelay: time.Second},
			MinConnectTimeout: listTimeout,
		}),
	}, c.options...)
	conn, err := grpc.NewClient("passthrough:///"+target, options...)
	if err != nil {
		return nil, err
	}
	c.conns[target] = conn
	return pb.NewRhumblineClient(conn), nil
}

// route chooses the proxy of each attempt.
type route struct {
	client   *Client
	role     string
	address  string
	tried    []string
	failures int
}

// next returns the proxy for this attempt.
func (r *route) next() string {
	if r.address == "" {
		r.address = r.client.candidates(r.role, r.tried)[0]
	}
	return r.address
}

// served notes that the proxy works.
func (r *route) served() { r.tried, r.failures = nil, 0 }

// failed chooses the next proxy and pauses, or returns the error that ends the attempts.
func (r *route) failed(ctx context.Context, failure *Error) error {
	step := failure.step()
	if step == giveUp {
		return failure
	}
	pause := failure.RetryAfter
	if step != here {
		if !slices.Contains(r.tried, r.address) {
			r.tried = append(r.tried, r.address)
		}
		if len(r.client.candidates(r.role, nil)) <= len(r.tried) {
			r.tried = []string{r.address} // all were tried: begin again
		}
		r.address = failure.Owner
		r.client.refreshSoon()
	}
	if r.failures++; r.failures > freeAttempts || step == here {
		longest := min(pauseMin<<min(r.failures, 10), pauseMax)
		pause = max(pause, longest/2+rand.N(longest/2))
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), failure)
	}
	return nil
}
