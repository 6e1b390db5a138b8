package wherry

import (
	"context"
	"fmt"
	"math/rand"
	"time"
)

// A Handler does the work of a message. The worker acknowledges the message if it returns nil.
// Otherwise the message is received again later, or is dead after its last attempt: see Dead and
// Snooze.
type Handler func(ctx context.Context, m *Message) error

// Middleware returns a handler that calls another one. That of HandleTx begins its transaction
// inside of it.
type Middleware func(next Handler) Handler

// What an Event says.
const (
	EventReceived = "received" // a handler begins
	EventDone     = "done"     // acknowledged
	EventFailed   = "failed"   // given back, for another attempt later
	EventDead     = "dead"     // by its last attempt, or by Dead
	EventSnoozed  = "snoozed"  // given back by Snooze
	EventReturned = "returned" // given back because the worker stops; not counted
	EventLost     = "lost"     // the lease was lost
	EventError    = "error"    // the database failed; the worker tries again
)

// An Event is what the metrics hook is called with.
type Event struct {
	Name    string
	Queue   string
	Seconds float64  // since the handler began; for EventReceived since the message was sent
	Attempt int      // 0 for EventError
	Message *Message // nil for EventError
	Err     error
}

type workerSettings struct {
	grace time.Duration
	event func(Event)
	logf  func(format string, args ...any)
}

// A WorkerOption changes a worker.
type WorkerOption func(*workerSettings)

// Grace is how long a worker that stops waits for its handlers. The default is 30 s.
func Grace(d time.Duration) WorkerOption {
	return func(s *workerSettings) { s.grace = d }
}

// OnEvent sets the metrics hook. Several goroutines call it at once.
func OnEvent(hook func(Event)) WorkerOption {
	return func(s *workerSettings) { s.event = hook }
}

// Logf sets where the worker logs failures. The default is log.Printf.
func Logf(logf func(format string, args ...any)) WorkerOption {
	return func(s *workerSettings) { s.logf = logf }
}

type queueSettings struct {
	concurrency int // 0: the default
	lease       time.Duration
	maxAttempts int
	backoff     func(attempt int) time.Duration
	poll        time.Duration // 0: the default
}

const (
	defaultConcurrency = 10
	pollWhenWoken      = time.Second
	pollAlone          = 250 * time.Millisecond
)

func defaults() queueSettings {
	return queueSettings{lease: time.Minute, maxAttempts: 5, backoff: exponential}
}

func (s *queueSettings) check(queue string) error {
	switch {
	case s.concurrency < 0:
		return fmt.Errorf("wherry: queue %q: concurrency is %d, and must be 1 or more", queue, s.concurrency)
	case s.lease < 100*time.Millisecond:
		return fmt.Errorf("wherry: queue %q: the lease is %v, and must be 100 ms or more", queue, s.lease)
	case s.maxAttempts < 0:
		return fmt.Errorf("wherry: queue %q: the maximum of attempts is %d, and must be 0 or more; 0: any number",
			queue, s.maxAttempts)
	case s.poll < 0:
		return fmt.Errorf("wherry: queue %q: poll is %v, and must be more than 0", queue, s.poll)
	case s.backoff == nil:
		return fmt.Errorf("wherry: queue %q: the function of Backoff is nil", queue)
	}
	return nil
}

// An Option changes how the messages of a queue are handled.
type Option func(*queueSettings)

// Concurrency is how many messages of the queue are handled at once. The default is 10; for HandleTx
// it is 2 less than the connections of the pool, if these are fewer than 12, and 1 on SQLite.
func Concurrency(n int) Option {
	return func(s *queueSettings) {
		s.concurrency = n
		if n == 0 {
			s.concurrency = -1 // refused
		}
	}
}

// Lease is the time after which others receive a message if its worker has crashed. While a handler
// runs, the worker extends the lease each third of it. The default is a minute.
func Lease(d time.Duration) Option {
	return func(s *queueSettings) { s.lease = d }
}

// MaxAttempts is after how many attempts a message that fails is dead. The default is 5. 0: it is
// tried without end.
func MaxAttempts(n int) Option {
	return func(s *queueSettings) { s.maxAttempts = n }
}

// Backoff says how long a message waits that has failed in this attempt, which is 1 for the first.
// The default is 1 s, doubled with each attempt up to an hour, and up to a quarter more at random.
func Backoff(delay func(attempt int) time.Duration) Option {
	return func(s *queueSettings) { s.backoff = delay }
}

// Poll is how often a worker looks for messages that nobody notifies it of, such as delayed ones. The
// default is 1 s, and 250 ms if the connection gets no notifications.
func Poll(d time.Duration) Option {
	return func(s *queueSettings) {
		s.poll = d
		if d == 0 {
			s.poll = -1 // refused
		}
	}
}

func exponential(attempt int) time.Duration {
	delay := time.Hour
	if attempt < 12 {
		delay = time.Second << (attempt - 1)
	}
	return delay + time.Duration(rand.Int63n(int64(delay/4)))
}
