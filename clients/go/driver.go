package wherry

import "context"

// A Driver runs statements on a database. Postgres and SQLite have one for database/sql, package
// wherrypgx one for pgx. Tx is the driver's type of a transaction.
type Driver[Tx any] interface {
	// Query runs a statement outside of the transactions of others.
	Query(ctx context.Context, sql string, args ...any) (Rows, error)

	// QueryTx runs a statement in a transaction.
	QueryTx(ctx context.Context, tx Tx, sql string, args ...any) (Rows, error)

	// InTx begins a transaction, calls do, and commits if do returned nil. Otherwise it rolls back
	// and returns the error of do. An error of the beginning is a *BeginError.
	InTx(ctx context.Context, do func(tx Tx) error) error

	// Listener returns a connection that is notified when messages are sent, or ErrCannotListen.
	Listener(ctx context.Context) (Listener, error)

	// MaxConns returns how many connections can be open at once. 0: any number.
	MaxConns() int
}

// Rows are what a statement returns.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
	Close() error
}

// A Listener is a connection that is notified when messages are sent. One goroutine calls it.
type Listener interface {
	// Listen makes senders of a queue notify this connection. It returns false if a message that
	// is being sent now may not do so. Call it again a little later.
	Listen(ctx context.Context, queue string) (bool, error)

	// Unlisten ends the notifications of a queue.
	Unlisten(ctx context.Context, queue string) error

	// Wait returns nil at a notification, and an error when ctx ends. The connection remains
	// usable then.
	Wait(ctx context.Context) error

	Close()
}

// A BeginError says that a transaction could not begin, so no handler was called.
type BeginError struct{ Err error }

func (e *BeginError) Error() string { return "cannot begin a transaction: " + e.Err.Error() }

// Unwrap returns the driver's error.
func (e *BeginError) Unwrap() error { return e.Err }
