package zookeeper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// Mode says where instances are registered.
type Mode uint8

const (
	ByInterface   Mode = iota // below the interface of each service, where consumers of Dubbo 2 and 3 look, and clients of Eddy
	ByApplication             // below the application, where consumers of Dubbo 3 look first
	ByBoth
)

// modeOf reads the keys of an address that Dubbo has for it.
func modeOf(keys url.Values) (Mode, error) {
	switch mode := keys.Get("register-mode"); mode {
	case "interface":
		return ByInterface, nil
	case "instance":
		return ByApplication, nil
	case "all":
		return ByBoth, nil
	case "":
	default:
		return 0, fmt.Errorf("register-mode is %q: it must be interface, instance or all", mode)
	}
	if keys.Get("registry-type") == "service" {
		return ByBoth, nil
	}
	return ByInterface, nil
}

const (
	applications = "/services" // has a node for each application, and below it one for each address
	maxMapping   = 64 << 10    // of the applications that serve an interface, in bytes
)

// place is an address of the application: one node, which names the revision of the services there. What they are is another node, which all places with the same
// services share, and which stays.
type place struct {
	r       *Registry
	addr    string
	turn    chan struct{} // holds one element while nobody writes the node
	last    string        // the revision that was written last; of who has the turn, as is contest
	contest contest

	mu       sync.Mutex
	services map[string]offered // by their match keys
}

// offered is a service as Dubbo's metadata has it.
type offered struct {
	Name     string            `json:"name"`
	Group    string            `json:"group,omitempty"`
	Version  string            `json:"version,omitempty"`
	Protocol string            `json:"protocol"`
	Path     string            `json:"path"`
	Params   map[string]string `json:"params"`
}

// metadata is what consumers read of the services of a revision.
type metadata struct {
	App      string             `json:"app"`
	Revision string             `json:"revision"`
	Services map[string]offered `json:"services"`
}

// entry is the content of a place's node, as Curator's library for discovery writes it, which Dubbo uses.
type entry struct {
	Name        string  `json:"name"`
	ID          string  `json:"id"`
	Address     string  `json:"address"`
	Port        int     `json:"port"`
	SSLPort     *int    `json:"sslPort"`
	Payload     payload `json:"payload"`
	Registered  int64   `json:"registrationTimeUTC"`
	ServiceType string  `json:"serviceType"`
	URISpec     *string `json:"uriSpec"`
}

type payload struct {
	Class    string            `json:"@class"`
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata"`
}

type endpoint struct {
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
}

// member is a service at a place.
type member struct {
	*place
	key string
	o   offered
}

// member returns the service at its place. The service and the instance were checked.
func (r *Registry) member(s discovery.Service, i discovery.Instance) *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[i.Addr]
	if p == nil {
		p = &place{r: r, addr: i.Addr, turn: make(chan struct{}, 1), services: make(map[string]offered)}
		p.turn <- struct{}{}
		r.places[i.Addr] = p
	}
	params := r.params(s, i)
	for _, of := range []string{"pid", "timestamp"} { // a run of the program: a revision outlives it
		delete(params, of)
	}
	version := versionOf(s.Version)
	service := discovery.Service{Interface: s.Interface, Group: s.Group, Version: version, Protocol: protocolOf(s)}
	return &member{p, service.String() + ":" + service.Protocol, offered{s.Interface, s.Group, version, service.Protocol, s.Interface, params}}
}

// keep is that of keep.Holding.
func (m *member) keep(ctx context.Context, has func()) error {
	m.mu.Lock()
	m.services[m.key] = m.o
	m.mu.Unlock()
	return hold(ctx, m.r.connected(), has, func(ctx context.Context, s *session) (<-chan zk.Event, error) {
		if err := m.name(ctx, m.r.report.connected()); err != nil {
			return nil, err
		}
		return m.write(ctx, s)
	})
}

// remove is that of keep.Holding.
func (m *member) remove(ctx context.Context) error {
	m.mu.Lock()
	delete(m.services, m.key)
	m.mu.Unlock()
	_, err := m.write(ctx, m.r.connected())
	return err
}

// write makes the place's node as it should be, with the metadata that it names, or removes it where no service is left.
func (p *place) write(ctx context.Context, s *session) (<-chan zk.Event, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	n, m := p.now()
	if m != nil && m.Revision != p.last { // more services come or go at the same time, and each revision leaves a node
		if err := keep.Pause(ctx, keep.Settle); err != nil {
			return nil, err
		}
		n, m = p.now()
	}
	if m == nil {
		p.last = ""
		return nil, n.delete(ctx, s)
	}
	p.last = m.Revision
	if err := p.publish(ctx, p.r.report.connected(), m); err != nil {
		return nil, err
	}
	return n.place(ctx, s)
}

// now returns the node as it should be and the metadata of its services, nil if there are none.
func (p *place) now() (*node, *metadata) {
	p.mu.Lock()
	defer p.mu.Unlock()
	app := p.r.o.Application
	n := &node{r: p.r, parent: applications + "/" + app, name: p.addr, contest: &p.contest}
	if len(p.services) == 0 {
		return n, nil
	}
	m := &metadata{App: app, Services: make(map[string]offered, len(p.services))}
	host, text, _ := net.SplitHostPort(p.addr)
	port, _ := strconv.Atoi(text)
	var protocols []endpoint
	for key, o := range p.services {
		m.Services[key] = o
		if at := (endpoint{port, o.Protocol}); !slices.Contains(protocols, at) {
			protocols = append(protocols, at)
		}
	}
	slices.SortFunc(protocols, func(a, b endpoint) int { return strings.Compare(a.Protocol, b.Protocol) })
	sum := sha256.Sum256(encoded(m))
	m.Revision = hex.EncodeToString(sum[:16])
	n.data = encoded(entry{Name: app, ID: p.addr, Address: host, Port: port, Registered: p.r.started.UnixMilli(), ServiceType: "DYNAMIC",
		Payload: payload{Class: "org.apache.dubbo.registry.zookeeper.ZookeeperInstance", ID: p.addr, Name: app, Metadata: map[string]string{
			"dubbo.endpoints": string(encoded(protocols)), "dubbo.metadata.revision": m.Revision, "dubbo.metadata.storage-type": "remote",
			"timestamp": strconv.FormatInt(p.r.started.UnixMilli(), 10),
		}}})
	return n, m
}

// encoded is v as JSON. Its types have nothing that cannot be encoded.
func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// publish writes the metadata of a revision where consumers in Java look, and where those in Go do.
func (p *place) publish(ctx context.Context, s *session, m *metadata) error {
	data := encoded(m)
	for _, parent := range []string{"/" + p.r.o.Root + "/metadata/" + m.App, "/" + p.r.o.Root + "/" + m.App} {
		path := parent + "/" + m.Revision
		there, err := call(ctx, s, func() (bool, error) { there, _, err := s.conn.Exists(path); return there, err })
		if err == nil && !there {
			err = s.create(ctx, path, data)
		}
		if err != nil {
			return fmt.Errorf("zookeeper: the metadata %s: %w", path, err)
		}
	}
	return nil
}

// name sees to it that the application is among those that serve the interface.
func (m *member) name(ctx context.Context, s *session) error {
	path, app := "/"+m.r.o.Root+"/mapping/"+m.o.Name, m.r.o.Application
	type mapping struct {
		apps    string
		version int32
	}
	for range 4 { // others may write it at the same time
		is, err := call(ctx, s, func() (mapping, error) {
			data, st, err := s.conn.Get(path)
			if err != nil {
				return mapping{}, err
			}
			return mapping{string(data), st.Version}, nil
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err = s.create(ctx, path, []byte(app))
		case err == nil && slices.Contains(strings.Split(is.apps, ","), app):
			return nil
		case err == nil && len(is.apps)+len(app) >= maxMapping:
			return fmt.Errorf("zookeeper: %s has %d bytes, limit %d: there is no room for one more application", path, len(is.apps), maxMapping)
		case err == nil:
			apps := app
			if is.apps != "" {
				apps = is.apps + "," + app
			}
			_, err = call(ctx, s, func() (*zk.Stat, error) { return s.conn.Set(path, []byte(apps), is.version) })
		}
		if err != nil && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("zookeeper: %s: %w", path, err)
		}
	}
	return fmt.Errorf("zookeeper: others write %s all the time", path)
}

// create makes a node that stays, and those above it. It does nothing if the node is there.
func (s *session) create(ctx context.Context, path string, data []byte) error {
	create := func() (string, error) { return s.conn.Create(path, data, zk.FlagPersistent, s.acl) }
	_, err := call(ctx, s, create)
	if errors.Is(err, zk.ErrNoNode) {
		if err := s.ensure(ctx, path[:strings.LastIndexByte(path, '/')]); err != nil {
			return err
		}
		_, err = call(ctx, s, create)
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// joint is two registrations that are one.
type joint [2]discovery.Registration

// holdBoth keeps an instance in two places of the registry, or in none.
func holdBoth(k *keep.Keeper, first, second keep.Holding) (discovery.Registration, error) {
	one, err := k.Hold(first)
	if err != nil {
		return nil, err
	}
	two, err := k.Hold(second)
	if err != nil {
		_ = one.Withdraw(over()) // It goes on.
		return nil, err
	}
	return joint{one, two}, nil
}

// over is a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Withdraw implements discovery.Registration.
func (j joint) Withdraw(ctx context.Context) error {
	_ = j[1].Withdraw(over()) // It goes on beside the other one.
	return errors.Join(j[0].Withdraw(ctx), j[1].Withdraw(ctx))
}

// Err implements discovery.Registration.
func (j joint) Err() error {
	if err := j[0].Err(); err != nil {
		return err
	}
	return j[1].Err()
}
