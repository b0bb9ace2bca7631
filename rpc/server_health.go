package rpc

import (
	"context"
	"fmt"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
)

// ReflectionKey is eddy.Reflection, whose method List tells, on a small pool of its own, what the server serves. As eddy.Health it answers while the pools
// of the others are full.
var ReflectionKey = Key{Interface: "eddy.Reflection"}

// ListRequest is the request of List of eddy.Reflection.
type ListRequest struct{}

// ListResponse is the response of List, in the order of registration.
type ListResponse struct {
	Services []ServiceInfo `json:"services"`
}

// ServiceInfo describes a service.
type ServiceInfo struct {
	Service   string       `json:"service"` // the key
	Group     string       `json:"group,omitempty"`
	Interface string       `json:"interface"`
	Version   string       `json:"version,omitempty"`
	TimeoutMS int64        `json:"timeout_ms,omitempty"` // 0 = none
	Ports     []string     `json:"ports"`
	Methods   []MethodInfo `json:"methods"`
}

// MethodInfo describes a method.
type MethodInfo struct {
	Name     string   `json:"name"`
	OneWay   bool     `json:"one_way,omitempty"`
	Codecs   []string `json:"codecs"`
	Request  string   `json:"request,omitempty"`  // the type: the full name of a message, else the name in Go; "" for raw bodies and for none
	Response string   `json:"response,omitempty"` // likewise
}

// reflectionPool is where List runs, since lists may be long.
var reflectionPool = PoolOptions{Threads: 1, Queue: 64, KeepAlive: executor.DefaultKeepAlive}

func (s *Server) registerBuiltIn() error {
	health, err := NewService(HealthKey, Unary("Check", s.check))
	if err != nil {
		return err
	}
	reflection, err := NewService(ReflectionKey, Unary("List", s.list))
	if err != nil {
		return err
	}
	if err := s.register(&registration{svc: health, builtIn: true, onLoop: true}, nil); err != nil {
		return err
	}
	return s.register(&registration{svc: reflection, builtIn: true}, []RegisterOption{WithPoolOptions(reflectionPool)})
}

// SetServing sets what eddy.Health says of a service, and whether the registry has it. A service is served from Register on. The error says that
// the key is not registered.
func (s *Server) SetServing(key Key, serving bool) error {
	s.mu.Lock()
	r := s.registration(key)
	if r != nil {
		r.serving.Store(serving)
		s.healthChanged()
	}
	s.mu.Unlock()
	if r == nil {
		return fmt.Errorf("rpc: service %v is not registered", key)
	}
	s.announce(r)
	return nil
}

func (s *Server) check(_ context.Context, req *HealthRequest) (*HealthResponse, error) {
	if req.Service == "" {
		return &HealthResponse{Status: Serving}, nil // a draining server answers UNAVAILABLE instead
	}
	key, err := ParseKey(req.Service)
	if err != nil {
		return nil, badRequest(err)
	}
	s.mu.Lock()
	r := s.registration(key)
	s.mu.Unlock()
	switch {
	case r == nil:
		return nil, &frame.StatusError{Status: frame.StatusNotFound, Message: fmt.Sprintf("no service %q", req.Service)}
	case r.serving.Load():
		return &HealthResponse{Status: Serving}, nil
	}
	return &HealthResponse{Status: NotServing}, nil
}

func (s *Server) list(context.Context, *ListRequest) (*ListResponse, error) {
	return &ListResponse{Services: s.Services()}, nil
}

// Services describes what the server serves, in the order of registration.
func (s *Server) Services() []ServiceInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]ServiceInfo, len(s.registrations))
	for i, r := range s.registrations {
		list[i] = s.describe(r)
	}
	return list
}

func (s *Server) describe(r *registration) ServiceInfo {
	k := r.svc.key
	info := ServiceInfo{
		Service:   k.String(),
		Group:     k.Group,
		Interface: k.Interface,
		Version:   k.Version,
		TimeoutMS: r.timeout.Milliseconds(),
		Ports:     r.portNames,
	}
	if len(info.Ports) == 0 {
		for _, p := range s.ports {
			info.Ports = append(info.Ports, p.o.Name)
		}
	}
	for _, m := range r.svc.methods {
		mi := MethodInfo{Name: m.name, OneWay: m.oneWay, Request: m.types[0], Response: m.types[1]}
		for _, c := range m.Codecs() {
			mi.Codecs = append(mi.Codecs, c.String())
		}
		info.Methods = append(info.Methods, mi)
	}
	return info
}
