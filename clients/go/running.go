package wherry

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// A running message is one whose handler was called.
//
// Either its handler returns first, and settles is true from then on: the message is acknowledged or
// given back. Or it is cancelled first: then its result no longer counts.
type running struct {
	m        *Message
	ctx      context.Context // of the handler
	end      context.CancelFunc
	until    time.Time // when its lease ends
	settles  bool
	handle   func()
	giveBack func(ctx context.Context) // because the worker stops
}

func (q *queue[Tx]) track(values context.Context, m *Message, until time.Time) *running {
	r := &running{m: m, until: until}
	r.ctx, r.end = context.WithCancel(values)
	r.handle = func() { q.handle(values, r) }
	r.giveBack = func(ctx context.Context) { q.call(ctx, q.words().nack, m, nil, nil, true) }
	q.mu.Lock()
	q.running[r] = true
	q.mu.Unlock()
	return r
}

func (q *queue[Tx]) words() *dialect { return q.worker.client.words }

// cancel ends the context of a handler, unless it has returned.
func (q *queue[Tx]) cancel(r *running, why error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.settles || r.m.Cancelled() != nil {
		return false
	}
	r.m.cancelled.Store(&why)
	r.end()
	return true
}

func (q *queue[Tx]) cancelAll() {
	for _, r := range q.all() {
		q.cancel(r, ErrStopping)
	}
}

// abandon gives messages back whose handlers do not return. It returns how many.
func (q *queue[Tx]) abandon() (n int) {
	for _, r := range q.all() {
		if errors.Is(r.m.Cancelled(), ErrStopping) {
			ctx, cancel := context.WithTimeout(detached{r.ctx}, callTimeout)
			r.giveBack(ctx)
			cancel()
		}
		n++
	}
	return n
}

func (q *queue[Tx]) all() (all []*running) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for r := range q.running {
		all = append(all, r)
	}
	return all
}

// returned says that the handler returned. It returns why the handler was cancelled before.
func (q *queue[Tx]) returned(r *running) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if why := r.m.Cancelled(); why != nil {
		return why
	}
	r.settles = true
	return nil
}

// handle calls the handler, and settles the message.
func (q *queue[Tx]) handle(values context.Context, r *running) {
	defer func() {
		r.end()
		q.mu.Lock()
		delete(q.running, r)
		q.mu.Unlock()
	}()
	began := time.Now()
	var err error
	committed := false
	if r.ctx.Err() == nil {
		q.event(EventReceived, r.m, r.m.CreatedAt, nil)
		err = q.chain(r, &committed)
	}
	if committed {
		q.event(EventDone, r.m, began, nil)
		return
	}
	why := q.returned(r)
	if why == nil && errors.Is(err, ErrLeaseLost) {
		why = ErrLeaseLost
	}
	name := q.settle(values, r, err, why)
	if name == EventLost {
		q.worker.settings.logf("wherry: queue %q: message %d: %v", q.name, r.m.ID, ErrLeaseLost)
	}
	q.event(name, r.m, began, err)
}

func (q *queue[Tx]) event(name string, m *Message, since time.Time, err error) {
	q.worker.settings.event(Event{name, q.name, time.Since(since).Seconds(), m.Attempt, m, err})
}

// chain calls the middleware and the handler.
func (q *queue[Tx]) chain(r *running, committed *bool) error {
	handler := q.handler
	if q.handlerTx != nil {
		handler = func(ctx context.Context, m *Message) error {
			err := q.transaction(ctx, r)
			*committed = err == nil
			return err
		}
	}
	middleware := q.worker.middleware
	for i := len(middleware) - 1; i >= 0; i-- {
		handler = middleware[i](handler)
	}
	err := safely(func() error { return handler(r.ctx, r.m) })
	if err == nil && q.handlerTx != nil && !*committed {
		err = errors.New("a middleware hid the error of the handler")
	}
	return err
}

// transaction calls the handler and acknowledges the message in one transaction.
func (q *queue[Tx]) transaction(ctx context.Context, r *running) error {
	driver := q.worker.client.driver
	return driver.InTx(ctx, func(tx Tx) error {
		err := safely(func() error { return q.handlerTx(ctx, tx, r.m) })
		if err != nil {
			return err
		}
		if why := q.returned(r); why != nil {
			return why
		}
		rows, err := driver.QueryTx(ctx, tx, q.words().ack, q.name, r.m.ID, r.m.token)
		held := false
		if err := one(rows, err, &held); err != nil {
			return fmt.Errorf("cannot acknowledge: %w", err)
		}
		if !held {
			return ErrLeaseLost
		}
		return nil
	})
}

func safely(call func() error) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v\n%s", why, debug.Stack())
		}
	}()
	return call()
}

// settle acknowledges a message, gives it back or makes it dead, and returns the name of the event.
func (q *queue[Tx]) settle(values context.Context, r *running, err, cancelled error) string {
	var (
		dead   *deadError
		snooze *snoozeError
		begin  *BeginError
	)
	held, name := false, ""
	switch {
	case errors.Is(cancelled, ErrLeaseLost):
	case cancelled != nil:
		name = EventReturned
		held = q.insist(values, r, q.words().nack, nil, nil, true)
	case err == nil:
		name = EventDone
		held = q.insist(values, r, q.words().ack)
	case errors.As(err, &dead):
		name = EventDead
		held = q.insist(values, r, q.words().dead, clean(err))
	case errors.As(err, &snooze):
		name = EventSnoozed
		held = q.insist(values, r, q.words().nack, interval(snooze.delay), nil, true)
	case errors.As(err, &begin):
		name = EventReturned
		q.worker.report(q.name, err)
		held = q.insist(values, r, q.words().nack, interval(time.Second), clean(err), true)
	default:
		name = EventFailed
		if q.settings.maxAttempts > 0 && r.m.Attempt >= q.settings.maxAttempts {
			name = EventDead
		}
		delay := q.settings.backoff(r.m.Attempt)
		held = q.insist(values, r, q.words().nack, interval(delay), clean(err), false)
	}
	if !held {
		return EventLost
	}
	if name == EventDead || name == EventFailed {
		q.worker.settings.logf("wherry: queue %q: message %d, attempt %d, %s: %v", q.name, r.m.ID, r.m.Attempt, name, err)
	}
	return name
}

// clean is an error's text as a database stores it.
func clean(err error) string {
	return strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "�")
}

// insist settles a message, again if the database fails, until its lease ends. It returns false if the
// lease was lost.
func (q *queue[Tx]) insist(ctx context.Context, r *running, statement string, args ...any) bool {
	for failed := 1; ; failed++ {
		brief, cancel := context.WithTimeout(ctx, callTimeout)
		held, err := q.call(brief, statement, r.m, args...)
		cancel()
		if err == nil {
			return held || failed > 1 // the answer of an earlier call may have been lost
		}
		q.worker.report(q.name, fmt.Errorf("message %d: %w", r.m.ID, err))
		pause := pauseAfter(failed)
		if time.Now().Add(pause).After(r.until) {
			return false
		}
		sleep(ctx, pause)
	}
}

// call settles a message or extends its lease. It returns false if the lease was lost.
func (q *queue[Tx]) call(ctx context.Context, statement string, m *Message, args ...any) (held bool, err error) {
	driver := q.worker.client.driver
	rows, err := driver.Query(ctx, statement, append([]any{q.name, m.ID, m.token}, args...)...)
	err = one(rows, err, &held)
	return held, err
}
