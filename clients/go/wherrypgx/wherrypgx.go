// Package wherrypgx is Wherry's client for pgx 5.
package wherrypgx

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	wherry "wherry.dev/go"
)

// New returns a client of the database of a pool. A worker takes one connection of its own from the
// pool, to be notified. It needs a direct connection to the server for that. Behind a pooler, such as
// PgBouncer in transaction mode, it polls.
func New(pool *pgxpool.Pool) *wherry.Client[pgx.Tx] {
	return wherry.NewPostgres[pgx.Tx](&driver{pool})
}

// Listen returns what wherry.Postgres needs to be notified: a connection of pgx beside those of
// database/sql.
func Listen(url string) func(context.Context) (wherry.Listener, error) {
	return func(ctx context.Context) (wherry.Listener, error) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return nil, err
		}
		return listen(ctx, conn)
	}
}

const closeTimeout = 5 * time.Second

type driver struct{ pool *pgxpool.Pool }

// rows has the Close of database/sql.
type rows struct{ pgx.Rows }

func (r rows) Close() error {
	r.Rows.Close()
	return r.Err()
}

func (d *driver) Query(ctx context.Context, sql string, args ...any) (wherry.Rows, error) {
	r, err := d.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return rows{r}, nil
}

func (d *driver) QueryTx(ctx context.Context, tx pgx.Tx, sql string, args ...any) (wherry.Rows, error) {
	r, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return rows{r}, nil
}

func (d *driver) InTx(ctx context.Context, do func(tx pgx.Tx) error) error {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return &wherry.BeginError{Err: err}
	}
	// The context may have ended, but the connection is to be used again.
	defer func() {
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = tx.Rollback(brief) // without effect after Commit
	}()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func (d *driver) MaxConns() int {
	return int(d.pool.Config().MaxConns)
}

func (d *driver) Listener(ctx context.Context) (wherry.Listener, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return listen(ctx, conn.Hijack())
}

type listener struct{ conn *pgx.Conn }

// listen takes over a connection. A pooler names another process than the server's.
func listen(ctx context.Context, conn *pgx.Conn) (wherry.Listener, error) {
	l := &listener{conn}
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	if err == nil && pid != conn.PgConn().PID() {
		err = wherry.ErrCannotListen
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *listener) Listen(ctx context.Context, queue string) (listens bool, err error) {
	err = l.conn.QueryRow(ctx, "SELECT wherry_listen($1)", queue).Scan(&listens)
	return listens, err
}

func (l *listener) Unlisten(ctx context.Context, queue string) error {
	_, err := l.conn.Exec(ctx, "SELECT wherry_unlisten($1)", queue)
	return err
}

func (l *listener) Wait(ctx context.Context) error {
	_, err := l.conn.WaitForNotification(ctx)
	return err
}

func (l *listener) Close() {
	brief, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = l.conn.Close(brief)
}
