package desk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk/backup"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/version"
)

func newBackup(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Copy the data of a Desk, which may be running, into a new directory",
		Long: "Copy the data of a Desk into a new directory: the database as it is at one moment, and the uploaded files. The Desk may be\n" +
			"running and goes on meanwhile. The directory has its name once the backup is complete; SHA256SUMS in it can be checked with sha256sum -c.",
		Example: "  eddy desk backup --data /var/lib/eddy-desk --to /backup/desk-2026-11-22",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := desk.checkFile("pg_dump copies the database; copy the files of --files with cp, or with a tool of the object store, after it"); err != nil {
				return err
			}
			now := time.Now()
			if to == "" {
				to = "desk-backup-" + now.UTC().Format("20060102T150405Z")
			}
			return t.WhileRunning(cmd.Context(), func(ctx context.Context) error {
				m, err := backup.Make(ctx, backup.Options{DataDir: desk.data, To: to, Program: version.Get().Version, Progress: t.Progress("backup", now)})
				if err != nil {
					return err
				}
				t.Say("eddy: backup of %s is in %s: %s, %d uploaded files, schema version %d", desk.data, to, cli.Size(m.Bytes), m.Files, m.Schema)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "new directory; empty = desk-backup-TIME in the current one")
	return cmd
}

func newRestore(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	var from string
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Put a backup into a data directory; the Desk must be stopped",
		Long: "Put a backup into a data directory that no running Desk has. The backup is checked before anything is touched. With --replace, what is\n" +
			"there is kept in a directory beside. Clients start afresh afterwards, because they may hold what is newer than the backup.",
		Example: "  eddy desk restore --from /backup/desk-2026-11-22 --data /var/lib/eddy-desk",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := desk.checkFile("pg_restore restores a dump; copy the files of --files back with cp, or with a tool of the object store"); err != nil {
				return err
			}
			if from == "" {
				return errors.New("--from is empty: name the directory of a backup")
			}
			return t.WhileRunning(cmd.Context(), func(ctx context.Context) error {
				r, err := backup.Restore(ctx, backup.RestoreOptions{From: from, DataDir: desk.data, Replace: replace, Progress: t.Progress("restore", time.Now())})
				if err != nil {
					return err
				}
				t.Say("eddy: restored %s from %s, made %s: %s, %d uploaded files", desk.data, from, r.Made.Format(time.RFC3339), cli.Size(r.Bytes), r.Files)
				if r.Kept != "" {
					t.Say("  what was there before is in %s", r.Kept)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "directory of the backup")
	cmd.Flags().BoolVar(&replace, "replace", false, "put aside the Desk that is in the data directory")
	return cmd
}

func newMigrate(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	var check bool
	var to string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database of an older program up to date, or move it to PostgreSQL; the Desk must be stopped",
		Long: "Bring the database of an older program up to date. \"eddy desk\" does so by itself when it starts; this is for those who want to do it\n" +
			"at a time of their own, and --check for those who want to know. Make a backup first.\n\n" +
			"With --to, copy everything in the database file of --data into an empty PostgreSQL database, and compare the two. The file stays as it is.\n" +
			"A copy that was interrupted goes on when the command is given again. Then start with --store and the same --data, which has the uploaded files.",
		Example: "  eddy desk migrate --check\n  eddy desk migrate\n  eddy desk migrate --data /var/lib/eddy-desk --to postgres://desk@db.example/desk",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to != "" {
				return desk.move(cmd.Context(), t, to, check)
			}
			info, err := desk.inspect(cmd.Context())
			if err != nil {
				return err
			}
			switch {
			case info.Schema == info.Newest:
				t.Say("eddy: the database in %s has schema version %d, the newest", desk.place(), info.Schema)
				return nil
			case check:
				t.Say("eddy: the database in %s has schema version %d, this program brings it to %d", desk.place(), info.Schema, info.Newest)
				return nil
			}
			from := time.Now()
			dir, err := datadir.Lock(cmd.Context(), desk.data)
			if err != nil {
				return err
			}
			if err := withData(cmd.Context(), t, desk, dir, func(context.Context, store.Store) error { return nil }); err != nil {
				return err
			}
			t.Say("eddy: the database in %s has schema version %d now, after %s", desk.place(), info.Newest, time.Since(from).Round(time.Millisecond))
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only say what would be done")
	cmd.Flags().StringVar(&to, "to", "", "address of an empty PostgreSQL database that everything is copied into")
	return cmd
}

// move copies the database file of the data directory to PostgreSQL.
func (f *deskFlags) move(ctx context.Context, t *cli.Terminal, to string, check bool) error {
	if err := f.checkFile("--to needs the file of --data alone"); err != nil {
		return err
	}
	if err := sqlstore.CheckURL(to); err != nil {
		return err
	}
	info, err := f.inspect(ctx)
	if err != nil {
		return err
	}
	if check {
		t.Say("eddy: the database in %s, %s, would be copied to %s", f.data, cli.Size(info.Size), sqlstore.Place(to))
		return nil
	}
	from := time.Now()
	dir, err := datadir.Lock(ctx, f.data)
	if err != nil {
		return err
	}
	if err := withData(ctx, t, f, dir, func(context.Context, store.Store) error { return nil }); err != nil { // an older schema
		return err
	}
	// An open store works in the background on what is copied, so it is closed by now.
	if dir, err = datadir.Lock(ctx, f.data); err != nil {
		return err
	}
	var done sqlstore.Copied
	err = t.WhileRunning(ctx, func(ctx context.Context) error {
		said := time.Now()
		done, err = sqlstore.Copy(ctx, datadir.Database(f.data), to, func(table string, rows, of int64) {
			if time.Since(said) >= saidEvery {
				said = time.Now()
				t.Note("table %s: %d of %d rows", table, rows, of)
			}
		})
		return err
	})
	if err := errors.Join(err, dir.CloseInOrder()); err != nil { // nothing has written to the file
		return err
	}
	t.Say("eddy: copied %d rows to %s in %s, %d of them now; all check sums agree", done.Rows, sqlstore.Place(to), time.Since(from).Round(time.Millisecond), done.New)
	t.Say("  start with: eddy desk --data %s --store %s", f.data, sqlstore.Place(to))
	return nil
}

// saidEvery is how often a copy says how far it is.
const saidEvery = 5 * time.Second

func newVersion(t *cli.Terminal, desk *deskFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary and of the data",
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := desk.inspect(cmd.Context())
			none, empty := errors.AsType[*noDesk](err)
			if err != nil && !empty {
				return err
			}
			t.Say("eddy %s, schema version %d", version.Get().Version, info.Newest)
			if none != nil {
				t.Say("%s: no data", desk.place())
				return nil
			}
			t.Say("%s: schema version %d, store %s, %s", desk.place(), info.Schema, info.ID, cli.Size(info.Size))
			return nil
		},
	}
}

// withData opens the database of a data directory, calls f and closes both. dir is nil when a running Desk has the
// directory, which has then checked the database.
func withData(ctx context.Context, t *cli.Terminal, desk *deskFlags, dir *datadir.Held, f func(context.Context, store.Store) error) error {
	steps := opening{t: t}
	o := sqlstore.Options{URL: desk.store, Wait: longest, InOrder: dir == nil || dir.InOrder, Checking: steps.checking, Migrating: steps.migrating}
	if o.URL == "" {
		o.Path = datadir.Database(desk.data)
	}
	db, err := sqlstore.Open(ctx, o)
	steps.end()
	if err != nil {
		if dir != nil {
			_ = dir.Close()
		}
		return err
	}
	err = f(ctx, db)
	closed := db.Close()
	switch {
	case dir == nil:
	case closed == nil:
		closed = dir.CloseInOrder()
	default:
		_ = dir.Close()
	}
	return errors.Join(err, closed)
}

// longest is how long the work of a command line may take. It waits no longer than others for locks.
const longest = time.Hour

// noDesk is the error of a command that found no Desk in the data directory.
type noDesk struct{ dir string }

func (e *noDesk) Error() string {
	return fmt.Sprintf("there is no Desk in %s: name its data directory with --data", e.dir)
}

// checkFile refuses a command about the database file if the data are elsewhere.
func (f *deskFlags) checkFile(instead string) error {
	if f.store != "" {
		return fmt.Errorf("--store is a database of PostgreSQL: %s", instead)
	}
	return f.checkData()
}

// inspect looks at the database that the flags name.
func (f *deskFlags) inspect(ctx context.Context) (sqlstore.Info, error) {
	if err := f.checkData(); err != nil {
		return sqlstore.Info{}, err
	}
	if f.store != "" {
		info, err := sqlstore.InspectPostgres(ctx, f.store)
		if err == nil && info.Schema == 0 {
			err = &noDesk{f.place()}
		}
		return info, err
	}
	info, err := sqlstore.Inspect(ctx, datadir.Database(f.data))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && info.Schema == 0) {
		return info, &noDesk{filepath.Clean(f.data)}
	}
	return info, err
}
