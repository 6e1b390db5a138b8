package wherry

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"
)

// A Worker receives messages of queues and calls their handlers.
type Worker[Tx any] struct {
	client     *Client[Tx]
	settings   workerSettings
	middleware []Middleware
	queues     []*queue[Tx]
	err        error // the first mistake in the calls before Run

	stop     chan struct{}
	stopOnce sync.Once
	waker    *waker
}

// NewWorker returns a worker that has no handlers yet.
func NewWorker[Tx any](client *Client[Tx], options ...WorkerOption) *Worker[Tx] {
	w := &Worker[Tx]{client: client, stop: make(chan struct{})}
	w.settings = workerSettings{grace: 30 * time.Second, event: func(Event) {}, logf: log.Printf}
	for _, option := range options {
		option(&w.settings)
	}
	return w
}

// Use adds middleware around all handlers. The first one is outermost.
func (w *Worker[Tx]) Use(middleware ...Middleware) {
	w.middleware = append(w.middleware, middleware...)
}

// Handle has a handler do the messages of a queue. A message whose worker crashes after the handler
// and before the acknowledgement is handled again.
func (w *Worker[Tx]) Handle(name string, handler Handler, options ...Option) {
	w.add(&queue[Tx]{name: name, handler: handler}, options)
}

// HandleTx has a handler do the messages of a queue in a transaction. The worker acknowledges the
// message in it before it commits, so rows that the handler writes in tx are written once for each
// message, whatever crashes. The handler must not end the transaction.
func (w *Worker[Tx]) HandleTx(name string, handler func(ctx context.Context, tx Tx, m *Message) error, options ...Option) {
	w.add(&queue[Tx]{name: name, handlerTx: handler}, options)
}

func (w *Worker[Tx]) add(q *queue[Tx], options []Option) {
	q.worker = w
	q.settings = defaults()
	for _, option := range options {
		option(&q.settings)
	}
	err := q.settings.check(q.name)
	if err == nil && q.handler == nil && q.handlerTx == nil {
		err = fmt.Errorf("wherry: queue %q: the handler is nil", q.name)
	}
	for _, other := range w.queues {
		if other.name == q.name {
			err = fmt.Errorf("wherry: queue %q has two handlers", q.name)
		}
	}
	if w.err == nil {
		w.err = err
	}
	w.queues = append(w.queues, q)
}

// Stop has Run stop, as the end of its context does.
func (w *Worker[Tx]) Stop() {
	w.stopOnce.Do(func() { close(w.stop) })
}

// Run works until ctx ends or Stop is called. Then it receives no more messages, and waits for the
// handlers for the grace period. It cancels the contexts of those that still run, and gives their
// messages back. It returns nil, or an error if a handler did not return even then. It also returns an
// error if it cannot begin: an option is wrong, a queue is missing, or the database does not answer. Later
// it waits for the database. A worker runs once.
func (w *Worker[Tx]) Run(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	if len(w.queues) == 0 {
		return errors.New("wherry: the worker has no handlers: call Handle first")
	}
	if err := w.limit(); err != nil {
		return err
	}
	values := detached{ctx}
	stopping, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.stop:
			cancel()
		case <-stopping.Done():
		}
	}()
	for _, q := range w.queues {
		if err := q.exists(stopping); err != nil && stopping.Err() == nil {
			return err
		}
	}
	w.waker = newWaker(w.client.driver.Listener, w.report)
	wakerDone := make(chan struct{})
	wakerCtx, stopWaker := context.WithCancel(values)
	go func() {
		w.waker.run(wakerCtx)
		close(wakerDone)
	}()
	defer func() {
		stopWaker()
		<-wakerDone
	}()

	var loops sync.WaitGroup
	for _, q := range w.queues {
		loops.Add(1)
		go func(q *queue[Tx]) {
			defer loops.Done()
			q.run(stopping, values)
		}(q)
	}
	<-stopping.Done()
	loops.Wait()
	return w.finish()
}

// finish waits for the handlers that still run.
func (w *Worker[Tx]) finish() error {
	ended := make(chan struct{})
	go func() {
		for _, q := range w.queues {
			q.handlers.Wait()
		}
		close(ended)
	}()
	defer func() {
		for _, q := range w.queues {
			q.endHeartbeat()
		}
	}()
	if wait(ended, w.settings.grace) {
		return nil
	}
	for _, q := range w.queues {
		q.cancelAll()
	}
	if wait(ended, 5*time.Second) {
		return nil
	}
	var err error
	for _, q := range w.queues {
		if n := q.abandon(); n > 0 && err == nil {
			err = fmt.Errorf("wherry: %d handlers of queue %q did not return when their context was cancelled; "+
				"their messages were given back", n, q.name)
		}
	}
	return err
}

func wait(ended <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// limit chooses how many transactions run at once. Two connections must be left, to receive and to
// extend leases.
func (w *Worker[Tx]) limit() error {
	most := w.client.driver.MaxConns()
	open := 0
	for _, q := range w.queues {
		s := &q.settings
		if q.handlerTx != nil && w.client.words.oneWriter {
			if s.concurrency > 1 {
				return fmt.Errorf("wherry: queue %q: SQLite runs one transaction at a time: leave Concurrency(%d) out, "+
					"or use Handle", q.name, s.concurrency)
			}
			s.concurrency = 1
			continue
		}
		if q.handlerTx != nil && most > 0 {
			if s.concurrency == 0 && most-2 < defaultConcurrency {
				s.concurrency = most - 2
			}
			if s.concurrency == 0 {
				s.concurrency = defaultConcurrency
			}
			open += s.concurrency
			if open+2 > most || s.concurrency < 1 {
				return fmt.Errorf("wherry: queue %q: %d transactions at once need a pool of %d connections, and it has %d: "+
					"raise its limit, or give Concurrency()", q.name, open, open+2, most)
			}
		}
		if s.concurrency == 0 {
			s.concurrency = defaultConcurrency
		}
	}
	return nil
}

// report logs a failure of the database.
func (w *Worker[Tx]) report(queue string, err error) {
	w.settings.event(Event{Name: EventError, Queue: queue, Err: err})
	if queue == "" {
		w.settings.logf("wherry: %v", err)
	} else {
		w.settings.logf("wherry: queue %q: %v", queue, err)
	}
}

// detached has the values of a context, and does not end with it.
type detached struct{ values context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }
func (d detached) Value(key any) any         { return d.values.Value(key) }
