package wherry

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Message of a queue, leased to this worker.
type Message struct {
	Queue         string
	ID            int64
	MessageID     string
	Topic         string
	CorrelationID string
	ReplyTo       string
	Headers       map[string]string
	Body          []byte
	Attempt       int // 1 for the first
	CreatedAt     time.Time

	token     string
	cancelled atomic.Pointer[error]
}

// Cancelled returns why the handler's context was cancelled: ErrLeaseLost or ErrStopping. It
// returns nil if the context was not cancelled.
func (m *Message) Cancelled() error {
	if why := m.cancelled.Load(); why != nil {
		return *why
	}
	return nil
}

var (
	// ErrLeaseLost says that another worker may have the message now. The worker does not
	// acknowledge it, and rolls the transaction of a HandleTx handler back.
	ErrLeaseLost = errors.New("the lease was lost: another worker may have the message")

	// ErrStopping says that the worker stops and that the grace period is over. The message is
	// given back, and the attempt is not counted.
	ErrStopping = errors.New("the worker stops")

	// ErrCannotListen is what a driver returns if its connections get no notifications. The worker
	// then polls.
	ErrCannotListen = errors.New("the connection gets no notifications")
)

type deadError struct{ reason string }

func (e *deadError) Error() string { return e.reason }

// Dead returns an error with which a handler makes its message dead at once, with this reason.
func Dead(format string, args ...any) error {
	return &deadError{fmt.Sprintf(format, args...)}
}

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("again in %v", e.delay) }

// Snooze returns an error with which a handler gives its message back: it is received again after
// the delay, and the attempt is not counted.
func Snooze(delay time.Duration) error {
	return &snoozeError{delay}
}
