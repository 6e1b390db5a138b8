package wherry

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// Postgres returns a client of a database on PostgreSQL through database/sql, with pgx or lib/pq.
//
// database/sql has no notifications. Without listen, workers poll four times a second;
// wherrypgx.Listen makes one.
func Postgres(db *sql.DB, listen ...func(context.Context) (Listener, error)) *Client[*sql.Tx] {
	driver := &sqlDriver{db: db, listen: cannotListen}
	if len(listen) > 0 {
		driver.listen = listen[0]
	}
	return NewPostgres[*sql.Tx](driver)
}

// SQLite returns a client of a database on SQLite. Every connection of db must load the extension
// wherry.so.
func SQLite(db *sql.DB) *Client[*sql.Tx] {
	driver := &sqlDriver{db: db, oneWriter: true}
	driver.listen = driver.watch
	return &Client[*sql.Tx]{driver, &sqlite}
}

func cannotListen(context.Context) (Listener, error) {
	return nil, ErrCannotListen
}

type sqlDriver struct {
	db        *sql.DB
	listen    func(context.Context) (Listener, error)
	oneWriter bool // SQLite
}

func (d *sqlDriver) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	return asRows(d.db.QueryContext(ctx, query, args...))
}

func (d *sqlDriver) QueryTx(ctx context.Context, tx *sql.Tx, query string, args ...any) (Rows, error) {
	return asRows(tx.QueryContext(ctx, query, args...))
}

// asRows is nil if there is an error, and not an interface with a nil in it.
func asRows(rows *sql.Rows, err error) (Rows, error) {
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (d *sqlDriver) InTx(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := d.begin(ctx)
	if err != nil {
		return &BeginError{err}
	}
	defer tx.Rollback() // without effect after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// begin on SQLite takes the write lock at once. A transaction that reads first and writes later
// fails if another connection has written meanwhile, and does not wait for it.
func (d *sqlDriver) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil || !d.oneWriter {
		return tx, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM wherry_schema WHERE 0"); err != nil {
		tx.Rollback()
		if strings.Contains(err.Error(), "no such table") {
			return d.db.BeginTx(ctx, nil) // the statement to come says what is missing
		}
		return nil, err
	}
	return tx, nil
}

func (d *sqlDriver) Listener(ctx context.Context) (Listener, error) {
	return d.listen(ctx)
}

func (d *sqlDriver) MaxConns() int {
	return d.db.Stats().MaxOpenConnections
}

// A watcher notices commits of other connections to a file of SQLite, other processes' too.
type watcher struct {
	conn    *sql.Conn
	query   *sql.Stmt
	version int64
}

const watchPause = 20 * time.Millisecond

func (d *sqlDriver) watch(ctx context.Context) (Listener, error) {
	if d.MaxConns() == 1 {
		return nil, ErrCannotListen
	}
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &watcher{conn: conn}
	if w.query, err = conn.PrepareContext(ctx, "PRAGMA data_version"); err == nil {
		_, err = w.look()
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// look does not wait, so it needs no context, for which the driver would start a goroutine.
func (w *watcher) look() (changed bool, err error) {
	before := w.version
	err = w.query.QueryRow().Scan(&w.version)
	return before != w.version, err
}

// Listen does not look, or Wait would miss a commit that another queue waits for.
func (w *watcher) Listen(context.Context, string) (bool, error) { return true, nil }

func (w *watcher) Unlisten(context.Context, string) error { return nil }

func (w *watcher) Wait(ctx context.Context) error {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		changed, err := w.look()
		if changed || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (w *watcher) Close() {
	if w.query != nil {
		w.query.Close()
	}
	w.conn.Close()
}
