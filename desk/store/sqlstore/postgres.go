package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	pgOldest    = 150000                  // server_version_num
	pgReport    = time.Minute             // of one read for reports and lists
	pgConnect   = 1500 * time.Millisecond // of connecting to one of several machines, divided by their number: a read may have 2 s for it
	pgMigration = 4711                    // advisory locks
	pgAlone     = 4712

	// pgScans is off where every statement finds by an index. The plan of a prepared statement stays until the table is
	// analyzed: made while a table was small, it would read thousands of rows for each of one.
	pgScans = "enable_seqscan"
	// pgCompiles is off there, too: a scan that cannot be avoided counts as so expensive that the server would compile it first.
	pgCompiles = "jit"

	pgUnique   = "23505" // SQLSTATE
	pgReadOnly = "25006"
	pgDiskFull = "53100"

	pgNoneChanged = "22012" // division by zero, see pgSession.update
)

// postgres is the engine for PostgreSQL.
type postgres struct {
	o        *Options
	config   *pgx.ConnConfig
	prepared bool // the schema is up to date
}

func newPostgres(o *Options) (*postgres, error) {
	o.fill()
	config, err := pgx.ParseConfig(o.URL)
	if err != nil { // the error does not show the password
		return nil, fmt.Errorf("postgres: the address of the database: %w", err)
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "eddy-desk"
	}
	if n := machines(config); n > 1 && config.ConnectTimeout == 0 { // else one that says nothing takes all the time that the next ones need
		config.ConnectTimeout = pgConnect / time.Duration(n)
	}
	return &postgres{o: o, config: config}, nil
}

// machines returns how many machines an address names.
func machines(c *pgx.ConnConfig) int {
	all := map[string]bool{pgAddress(c.Host, c.Port): true}
	for _, f := range c.Fallbacks { // one with TLS and one without
		all[pgAddress(f.Host, f.Port)] = true
	}
	return len(all)
}

func pgAddress(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func (p *postgres) dialect() *dialect { return &postgresDialect }

// pool opens a pool whose sessions have settings, and may write unless they are readOnly.
func (p *postgres) pool(n int, readOnly bool, settings map[string]string) *sql.DB {
	c := p.config.Copy()
	for name, value := range settings {
		c.RuntimeParams[name] = value
	}
	if readOnly { // not as a setting, with which target_session_attrs=read-write would take every machine for a standby
		c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			_, err := conn.Exec(ctx, `SET default_transaction_read_only = on`).ReadAll()
			return err
		}
	}
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// session implements engine. A transaction of a process that has stopped in the middle ends soon, and with it its lock.
func (p *postgres) session(ctx context.Context) (session, error) {
	if !p.prepared {
		if err := p.prepare(ctx); err != nil {
			return nil, err
		}
		p.prepared = true
	}
	c := p.config.Copy()
	for name, value := range map[string]string{
		"lock_timeout": ms(p.o.BusyTimeout), "idle_in_transaction_session_timeout": ms(p.o.answer), "synchronous_commit": "on", pgScans: "off", pgCompiles: "off",
	} {
		c.RuntimeParams[name] = value
	}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &answered{conn, p.o.answer}, nil
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := p.claim(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return &pgSession{conn: conn, words: make(map[string]string)}, nil
}

// usable refuses a server that is too old or that takes no writes, and a database of another encoding.
func (p *postgres) usable(ctx context.Context, db *sql.DB) error {
	var version int
	var encoding string
	var standby bool
	err := db.QueryRowContext(ctx, `SELECT CAST(current_setting('server_version_num') AS integer), current_setting('server_encoding'), pg_is_in_recovery()`).
		Scan(&version, &encoding, &standby)
	switch {
	case err != nil:
		return err
	case version < pgOldest:
		return &ownError{fmt.Sprintf("postgres: database %s is on PostgreSQL %d: use version %d or later", p.place(), version/10000, pgOldest/10000)}
	case encoding != "UTF8":
		return &ownError{fmt.Sprintf("postgres: database %s has the encoding %s: create it with the encoding UTF8", p.place(), encoding)}
	case standby:
		return &ownError{fmt.Sprintf("postgres: database %s is a standby, which takes no writes: name the primary", p.place())}
	}
	return nil
}

// prepare checks the database and brings its schema up to date. Of several processes one migrates, the others wait.
func (p *postgres) prepare(ctx context.Context) (err error) {
	pool := p.pool(1, false, nil)
	defer func() { err = errors.Join(err, pool.Close()) }()
	if err := p.usable(ctx, pool); err != nil {
		return err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, pgMigration); err != nil {
		return err
	}
	done, err := p.unused(ctx, conn)
	if err != nil {
		return err
	}
	return errors.Join(migrate(ctx, conn, &postgresDialect, p.place(), p.o), done())
}

// unused keeps Desks away from a database with an older schema until done is called, and refuses one that a Desk uses. Beside
// rolling migrations they go on.
func (p *postgres) unused(ctx context.Context, conn *sql.Conn) (done func() error, err error) {
	done = func() error { return nil }
	all, err := loadMigrations(&postgresDialect)
	if err != nil {
		return done, err
	}
	have, err := schemaVersion(ctx, conn, &postgresDialect, p.place(), newest(all))
	if err != nil || have == 0 || !slices.ContainsFunc(all, func(m migration) bool { return m.version > have && !m.rolling }) {
		return done, err
	}
	var mine bool
	if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, pgAlone).Scan(&mine); err != nil {
		return done, err
	}
	if !mine {
		return done, &ownError{fmt.Sprintf("postgres: database %s has schema version %d, this program needs %d, and a Desk of another version uses it: stop that one, and the others of its version",
			p.place(), have, newest(all))}
	}
	return func() error {
		_, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, pgAlone)
		return err
	}, nil
}

// reader implements engine.
func (p *postgres) reader(n int, class readerClass) (*sql.DB, error) {
	settings := make(map[string]string)
	if class == hotReads {
		settings[pgScans], settings[pgCompiles] = "off", "off"
	} else {
		settings["statement_timeout"] = ms(pgReport)
	}
	return p.pool(n, true, settings), nil
}

// claim makes the database this process's alone, or keeps others from that, as Options.Alone and Options.Several say, until
// the connection ends.
func (p *postgres) claim(ctx context.Context, conn *pgx.Conn) error {
	var lock string
	switch {
	case p.o.Alone:
		lock = `SELECT pg_try_advisory_lock($1)`
	case p.o.Several:
		lock = `SELECT pg_try_advisory_lock_shared($1)`
	default:
		return nil
	}
	var got bool
	if err := conn.QueryRow(ctx, lock, pgAlone).Scan(&got); err != nil || got {
		return err
	}
	return &ownError{fmt.Sprintf("postgres: database %s is in use by another Desk, and one of the two shares it with none: stop that one", p.place())}
}

// place names the database without the password.
func (p *postgres) place() string { return placeOf(p.config) }

func placeOf(c *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", User: url.User(c.User), Path: "/" + c.Database}
	if strings.HasPrefix(c.Host, "/") { // the folder of a socket
		u.RawQuery = "host=" + c.Host
	} else {
		u.Host = pgAddress(c.Host, c.Port)
	}
	return u.String()
}

// CheckURL checks the address of a PostgreSQL database, "" for none.
func CheckURL(address string) error {
	if address == "" {
		return nil
	}
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return fmt.Errorf("the address of the database begins with %.12q: write postgres://user@host/database", address)
	}
	_, err := newPostgres(&Options{URL: address})
	return err
}

// Place returns an address that CheckURL accepts without its password.
func Place(address string) string {
	p, err := newPostgres(&Options{URL: address})
	if err != nil {
		return "postgres"
	}
	return p.place()
}

// InspectPostgres describes a PostgreSQL database and changes nothing. Any goroutine may call it, also while a server runs
// on the database.
func InspectPostgres(ctx context.Context, address string) (info Info, err error) {
	p, err := newPostgres(&Options{URL: address})
	if err != nil {
		return info, err
	}
	all, err := loadMigrations(&postgresDialect)
	if err != nil {
		return info, err
	}
	info.Newest = newest(all)
	pool := p.pool(1, true, nil)
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return info, p.explain(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if info.Schema, err = schemaVersion(ctx, conn, &postgresDialect, p.place(), info.Newest); err != nil || info.Schema == 0 {
		return info, err
	}
	err = conn.QueryRowContext(ctx, `SELECT coalesce((SELECT value FROM setting WHERE key = 'store_id'), ''), pg_database_size(current_database())`).Scan(&info.ID, &info.Size)
	if err != nil {
		err = p.explain(err)
	}
	return info, err
}

// explain implements engine.
func (p *postgres) explain(err error) error {
	if own, ok := errors.AsType[*ownError](err); ok {
		return own
	}
	remedy := ""
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pe.Code {
		case "3D000":
			remedy = ": create it with createdb"
		case "28000", "28P01":
			remedy = ": check user and password"
		case "42501":
			remedy = ": give this user the right to create tables in its schema"
		case pgDiskFull:
			remedy = ": the disk of the server is full"
		}
	} else if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		remedy = ": check that the server runs and can be reached"
	}
	return fmt.Errorf("postgres: database %s: %w%s", p.place(), err, remedy)
}

// pgTrouble reports whether a statement failed because of the server, the machine or the connection.
func pgTrouble(err error) bool {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pe.Code[:2] {
		case "08", "40", "53", "55", "57", "58", "XX": // connection, rollback, resources, not in this state, intervention, system, internal
			return pe.Code != "57014" // a read that took too long
		}
		return pe.Code == pgReadOnly
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// answered is a connection on which every answer has to come in time. Without it a writer would wait for a machine that is
// gone for as long as TCP does.
type answered struct {
	net.Conn
	within time.Duration
}

func (a *answered) Write(b []byte) (int, error) {
	if err := a.SetReadDeadline(time.Now().Add(a.within)); err != nil {
		return 0, err
	}
	return a.Conn.Write(b)
}
