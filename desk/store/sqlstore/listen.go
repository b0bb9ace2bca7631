package sqlstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-eddy/eddy/internal/sample"
)

const (
	pgChannel   = "eddy_desk"
	pgNotify    = `SELECT pg_notify('` + pgChannel + `', ?)` // by whom, and the last number of the outbox
	pgListens   = " listens"                                 // in pg_stat_activity
	pgLook      = time.Second                                // between two looks at that number, whatever notifications say
	pgListen    = 100 * time.Millisecond                     // after a failure; doubles
	pgListenMax = 5 * time.Second
)

// listener hears what other processes have committed, on a connection of its own. A notification only says that there is
// something; one that is lost is made up for by the next look.
type listener struct {
	p     *postgres
	me    string
	heard func(last int64)

	ctx      context.Context
	end      context.CancelFunc
	done     sync.WaitGroup
	failures sample.Seldom // of the log
}

// listen implements engine.
func (p *postgres) listen(me string, heard func(last int64)) (stop func()) {
	l := &listener{p: p, me: me, heard: heard}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.done.Go(l.run)
	return func() {
		l.end()
		l.done.Wait()
	}
}

func (l *listener) run() {
	for failed := 0; ; failed++ {
		err := l.session(func() { failed = 0 })
		if l.ctx.Err() != nil {
			return
		}
		if ok, held := l.failures.Allow(failureCounts); ok {
			l.p.o.Logger.Warn("store: it cannot be heard what other servers commit", "err", err, "held_back", held)
		}
		pause := time.NewTimer(min(pgListen<<min(failed, 10), pgListenMax))
		select {
		case <-pause.C:
		case <-l.ctx.Done():
			pause.Stop()
			return
		}
	}
}

// session listens until its connection fails.
func (l *listener) session(works func()) (err error) {
	c := l.p.config.Copy()
	c.RuntimeParams["application_name"] += pgListens
	conn, err := pgx.ConnectConfig(l.ctx, c)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), pgLook)
		defer cancel()
		err = errors.Join(err, conn.Close(ctx))
	}()
	if _, err := conn.Exec(l.ctx, `LISTEN `+pgChannel); err != nil {
		return err
	}
	var last int64
	for {
		seen := last
		ctx, cancel := context.WithTimeout(l.ctx, l.p.o.answer)
		err := conn.QueryRow(ctx, sqlLast+`0`+ofOutbox).Scan(&last, new(int64))
		cancel()
		if err != nil {
			return err
		}
		works()
		l.heard(seen) // not last: this process may have committed that, and be about to tell it
		if err := l.wait(conn); err != nil {
			return err
		}
	}
}

// wait passes notifications on until it is time to look.
func (l *listener) wait(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, pgLook)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			if l.ctx.Err() == nil && pgconn.Timeout(err) {
				return nil
			}
			return err
		}
		who, number, _ := strings.Cut(n.Payload, " ")
		if last, err := strconv.ParseInt(number, 10, 64); err == nil && who != l.me {
			l.heard(last)
		}
	}
}
