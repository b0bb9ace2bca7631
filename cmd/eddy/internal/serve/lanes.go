package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/ring"
)

// laneFlags are the flags of "eddy serve lanes".
type laneFlags struct {
	serving.Flags
	work     [3]time.Duration // per request, by lane
	workers  [3]int
	capacity int
	spill    string
	discard  bool
	maxLine  int
}

// laneNames are the names of the lanes, lightest first. A line whose first word is such a name goes to that lane.
var laneNames = [3]string{"light", "medium", "heavy"}

func newLanes(t *cli.Terminal) *cobra.Command {
	f := laneFlags{work: [3]time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond}, workers: [3]int{1, 1, 1}}
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: `One loop, three lanes of workers: a line's first word "heavy", "medium" or "light" chooses`,
		Long: `One loop reads lines and hands each to one of three lanes, each with workers of its own; the results come back through one multiplexer.
A line's first word says how heavy its work is; any other line is light. The answer is "<length>: <text>" when the work is done, so answers of
different lanes overtake each other. A lane that is full answers "busy: ...", or spills to disk with --spill; a client that is faster than the
disk then waits.`,
		Example: "  eddy serve lanes --spill /tmp/lanes\n  printf 'heavy one\\nlight two\\n' | nc 127.0.0.1 7000",
		RunE:    func(*cobra.Command, []string) error { return serveLanes(t, f) },
	}
	f.Register(cmd, cli.ServeAddr)
	f.RegisterIdle(cmd)
	for _, name := range []string{"loops", "dump", "dump-dir"} { // there is one loop, and no pool
		_ = cmd.Flags().MarkHidden(name)
	}
	for i, name := range laneNames {
		cmd.Flags().DurationVar(&f.work[i], name, f.work[i], "time a "+name+" request takes")
		cmd.Flags().IntVar(&f.workers[i], name+"-workers", f.workers[i], "workers of the "+name+" lane")
	}
	cmd.Flags().IntVar(&f.capacity, "capacity", ring.DefaultCapacity, "requests that wait for each worker, a power of two")
	cmd.Flags().StringVar(&f.spill, "spill", "", "directory for what a full lane cannot hold; empty = it answers busy")
	cmd.Flags().BoolVar(&f.discard, "discard", false, "empty what an earlier run left in the spill directory")
	cmd.Flags().IntVar(&f.maxLine, "max-line", line.DefaultMax, "longest line in bytes")
	return cmd
}

func (f *laneFlags) check() error {
	if f.maxLine < 1 || f.maxLine > maxLineLimit {
		return fmt.Errorf("--max-line %d is out of range: use 1 to %d", f.maxLine, maxLineLimit)
	}
	for i, name := range laneNames {
		if f.work[i] < 0 {
			return fmt.Errorf("--%s %v is negative", name, f.work[i])
		}
		if f.workers[i] < 1 || f.workers[i] > serving.MaxLoops {
			return fmt.Errorf("--%s-workers %d is out of range: use 1 to %d", name, f.workers[i], serving.MaxLoops)
		}
	}
	if f.Loops > 1 {
		return fmt.Errorf("--loops %d: the lanes have one loop", f.Loops)
	}
	return f.Flags.Check()
}

func serveLanes(t *cli.Terminal, f laneFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	op, err := f.Operator(t, "eddy serve lanes")
	if err != nil {
		return err
	}
	group := &eddy.Group{Loops: 1, Poller: f.Poller}
	s := &laneServer{conns: make(map[uint64]*laneClient), run: rand.Uint64(), work: f.work}
	init, end, err := f.Secured(t, func(p *eddy.Pipeline) error {
		p.Add("line", line.Codec(f.maxLine))
		return p.Add("lanes", s)
	})
	if err != nil {
		return err
	}
	defer end()
	lanes, err := executor.NewLanes(s.options(f))
	if err != nil {
		return err
	}
	if err := lanes.Start(); err != nil {
		return err
	}
	s.lanes = lanes
	srv := f.Server(init)
	srv.Loops, srv.Poller, srv.Group, srv.Topology = 0, "", group, eddy.SingleReactor
	err = group.Start()
	if err == nil {
		s.loop = group.Loop(0)
		close(s.ready)
		err = srv.Listen("tcp", f.Addr)
	}
	if err != nil {
		s.end(lanes, group)
		return cli.ExplainListen("--addr", f.Addr, err)
	}
	t.Say("eddy: serving lanes on %s; stop with Ctrl+C", srv.Addr())
	f.Measured = append(f.Measured, metrics.Group("loop", group), metrics.Lanes("lanes", lanes))
	if err := errors.Join(op.Watch("lanes", srv), op.Lanes("lanes", lanes), op.Begin(f.Measured...)); err != nil {
		err = errors.Join(err, srv.Close())
		s.end(lanes, group)
		return err
	}
	defer op.End()
	return serving.UntilSignal(t, nil, func(ctx context.Context) (string, error) {
		op.Drain()
		r, err := srv.Shutdown(ctx)
		stats := lanes.Stats()
		context.AfterFunc(ctx, func() { close(s.hurry) })
		lost := lanes.Stop(ctx)
		outcome := fmt.Sprintf("%d connections drained, %d forced, %d requests dropped; %s", r.Drained, r.Forced, r.Dropped+lost, outcomeOf(stats))
		return outcome, errors.Join(err, group.Close())
	})
}

// end stops the lanes and the group of a server that could not start.
func (s *laneServer) end(lanes *executor.Lanes[laneJob, laneJob], group *eddy.Group) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	close(s.hurry)
	lanes.Stop(ctx)
	_ = group.Close() // not called on a loop, the only error
}

func outcomeOf(stats []executor.LaneStats) string {
	var parts []string
	for _, l := range stats {
		parts = append(parts, fmt.Sprintf("%s %d done, %d refused", l.Name, l.Done, l.Rejected))
	}
	return strings.Join(parts, ", ")
}

// laneJob is a request on its way to a worker and its answer on the way back. It names its connection by a number,
// because the connection may have ended, or belonged to an earlier run, when the answer comes.
type laneJob struct {
	run, conn uint64
	text      []byte
}

// laneServer is the state of the program. All of it belongs to the one loop, except what the workers use.
type laneServer struct {
	lanes *executor.Lanes[laneJob, laneJob]
	loop  *eddy.Loop
	ready chan struct{} // closed when loop is set
	hurry chan struct{} // closed when the program has to end
	conns map[uint64]*laneClient
	held  [3][]*laneClient // connections that wait for room in each lane, in order
	last  uint64
	run   uint64 // tells this run's connections from those of earlier ones
	work  [3]time.Duration
}

func (s *laneServer) options(f laneFlags) executor.LanesOptions[laneJob, laneJob] {
	s.ready, s.hurry = make(chan struct{}), make(chan struct{})
	o := executor.LanesOptions[laneJob, laneJob]{
		Run: func(lane int, in, out *laneJob) {
			s.toil(s.work[lane])
			*out = *in
		},
		Wake:   s.wake,
		Room:   s.room,
		Encode: encodeJob,
		Decode: decodeJob,
	}
	for i, name := range laneNames {
		lane := executor.Lane{Name: name, Heaviness: i, Workers: f.workers[i], Capacity: f.capacity}
		if f.spill != "" {
			lane.Spill = &ring.SpillOptions{Dir: filepath.Join(f.spill, name), Discard: f.discard, MaxMessage: f.maxLine + jobHeader}
		}
		o.Lanes = append(o.Lanes, lane)
	}
	return o
}

// toil stands for the work of a request. It takes the time d, unless the program has to end.
func (s *laneServer) toil(d time.Duration) {
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.hurry:
	}
}

// wake lets the loop collect results. It runs on the goroutines of the lanes.
func (s *laneServer) wake() error {
	<-s.ready // work that an earlier run has spilled may be done before loop is set
	return s.loop.Post(func() { s.lanes.Collect(0, s.answer) })
}

const jobHeader = 16

func encodeJob(j *laneJob) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, jobHeader+len(j.text)), j.run)
	return append(binary.BigEndian.AppendUint64(b, j.conn), j.text...)
}

func decodeJob(b []byte, j *laneJob) error {
	if len(b) < jobHeader {
		return fmt.Errorf("spilled request of %d bytes, at least %d are needed", len(b), jobHeader)
	}
	*j = laneJob{run: binary.BigEndian.Uint64(b), conn: binary.BigEndian.Uint64(b[8:]), text: b[jobHeader:]}
	return nil
}

// laneClient is a connection and its unanswered requests.
type laneClient struct {
	ctx     *eddy.Context
	number  uint64
	pending int
	held    laneJob // the request that waits for room, while reads are held
	leaving bool    // the client has said goodbye
}

// refuse answers a line that the lane does not take.
func (c *laneClient) refuse(err error) error {
	return c.ctx.Write(fmt.Appendf(nil, "busy: %v\n", err))
}

// answered counts one line as answered.
func (c *laneClient) answered() {
	c.pending--
	c.ctx.Conn().End()
	c.leave()
}

// leave ends the connection when everything it asked for was answered.
func (c *laneClient) leave() {
	if c.leaving && c.pending == 0 {
		c.ctx.CloseAfterFlush(eddy.CloseNormal)
	}
}

// HandleOpen gives the connection a number.
func (s *laneServer) HandleOpen(ctx *eddy.Context) error {
	s.last++
	c := &laneClient{ctx: ctx, number: s.last}
	s.conns[c.number] = c
	ctx.SetState(c)
	return nil
}

// HandleClose forgets the connection.
func (s *laneServer) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) {
	if c, ok := ctx.State().(*laneClient); ok {
		delete(s.conns, c.number)
		for i := range s.held {
			s.held[i] = slices.DeleteFunc(s.held[i], func(h *laneClient) bool { return h == c })
		}
	}
}

// HandleRead hands one line to the lane that its first word names.
func (s *laneServer) HandleRead(ctx *eddy.Context, msg any) error {
	l, ok := msg.(*line.Line)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	text := string(l.Text())
	c := ctx.State().(*laneClient)
	if c.leaving = c.leaving || text == "bye" || text == "exit"; c.leaving {
		c.leave()
		return nil
	}
	word, _, _ := strings.Cut(text, " ")
	heaviness := 0
	for i, name := range laneNames {
		if word == name {
			heaviness = i
		}
	}
	job := laneJob{run: s.run, conn: c.number, text: []byte(text)}
	lane := s.lanes.For(heaviness)
	err := s.lanes.Submit(lane, job)
	if errors.Is(err, executor.ErrWait) {
		c.held = job
		s.held[lane] = append(s.held[lane], c)
		ctx.HoldReads()
		err = nil
	}
	if err != nil {
		return c.refuse(err)
	}
	c.pending++
	ctx.Conn().Begin()
	return nil
}

// room submits the lines that wait for a lane, in order, and lets their connections read on.
func (s *laneServer) room(lane int) {
	for len(s.held[lane]) > 0 {
		c := s.held[lane][0]
		err := s.lanes.Submit(lane, c.held)
		if errors.Is(err, executor.ErrWait) {
			return
		}
		s.held[lane] = s.held[lane][1:]
		c.ctx.ReleaseReads()
		if err != nil {
			_ = c.refuse(err) // a connection that is ending needs no answer
			c.answered()
		}
	}
}

// HandleError tells the peer what was wrong with its line; the connection then closes with the error's own reason.
func (s *laneServer) HandleError(ctx *eddy.Context, err error) error {
	return answer{}.HandleError(ctx, err)
}

// answer writes one result to its connection, if that is still there.
func (s *laneServer) answer(j *laneJob) {
	c := s.conns[j.conn]
	if c == nil || j.run != s.run {
		return
	}
	if err := c.ctx.Write(fmt.Appendf(nil, "%d: %s\n", len(j.text), j.text)); err != nil && !errors.Is(err, eddy.ErrClosed) {
		c.ctx.Conn().CloseWith(eddy.CloseBackpressureLimit, err)
	}
	c.answered()
}
