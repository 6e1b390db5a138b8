package wherry

import (
	"context"
	"sync"
	"time"
)

// A queue that a worker receives from.
type queue[Tx any] struct {
	worker    *Worker[Tx]
	name      string
	settings  queueSettings
	handler   Handler // or
	handlerTx func(ctx context.Context, tx Tx, m *Message) error

	slots    chan struct{}  // one element for each message that is being handled
	handlers sync.WaitGroup // the goroutines of these

	mu      sync.Mutex
	running map[*running]bool
	noBeat  chan struct{} // closed: the heartbeat ends
}

// A call of wherry_receive with `after` passes over messages that are due and those that were committed
// late, so each tenth is without it.
const lookAgain = 10

// exists returns an error if the queue or the functions are missing.
func (q *queue[Tx]) exists(ctx context.Context) error {
	brief, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := q.worker.client.driver.Query(brief, q.words().exists, q.name)
	var n int64
	err = one(rows, err, &n)
	return wrap(err, "cannot receive from queue", q.name)
}

// run receives until ctx ends. Handlers may run on then. values is a context that does not end.
func (q *queue[Tx]) run(ctx, values context.Context) {
	q.slots = make(chan struct{}, q.settings.concurrency)
	q.running = map[*running]bool{}
	q.noBeat = make(chan struct{})
	if q.handlerTx == nil || !q.worker.client.words.oneWriter {
		go q.heartbeat(values)
	}
	var (
		after  int64           // the last id received
		woken  <-chan struct{} // not nil: senders notify
		fresh  bool            // the queue has listened since it last waited
		full   int             // how many receives in a row returned messages
		failed int             // how many failed in a row
	)
	for receives := 1; ; receives++ {
		n := q.reserve(ctx)
		if n == 0 {
			break
		}
		if receives%lookAgain == 0 {
			after = 0
		}
		got, err := q.receiveAndStart(ctx, values, n, after)
		if err != nil {
			q.worker.report(q.name, err)
			failed++
			sleep(ctx, pauseAfter(failed))
			continue
		}
		failed = 0
		if len(got) > 0 {
			after = got[len(got)-1].ID
			full++
			// While a worker listens, senders commit one after the other. One that has work need not be
			// woken.
			if woken != nil && (full > 1 || len(got) == n) {
				q.worker.waker.unlisten(ctx, q.name)
				woken, fresh = nil, false
			}
			continue
		}
		full = 0
		if after > 0 {
			after = 0
			continue
		}
		if q.worker.waker.isNever() {
			sleep(ctx, q.poll(pollAlone))
			continue
		}
		// Nobody notifies of a message that was sent before: look once more after each listen.
		if !fresh {
			woken = q.worker.waker.listen(ctx, q.name)
			fresh = woken != nil
			if !fresh {
				sleep(ctx, pollAlone) // and try again, however long Poll is
			}
			continue
		}
		waitFor(ctx, woken, q.poll(pollWhenWoken))
		fresh = false
	}
}

func (q *queue[Tx]) poll(otherwise time.Duration) time.Duration {
	if q.settings.poll > 0 {
		return q.settings.poll
	}
	return otherwise
}

func waitFor(ctx context.Context, woken <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pauseAfter is how long to wait after that many failures of the database in a row.
func pauseAfter(failed int) time.Duration {
	if failed > 7 {
		return 5 * time.Second
	}
	return 20 * time.Millisecond << failed
}

// reserve waits until a message can be handled, and takes all free slots. It returns how many; 0: ctx
// ended.
func (q *queue[Tx]) reserve(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		select {
		case q.slots <- struct{}{}:
		default:
			return n
		}
	}
}

func (q *queue[Tx]) release(n int) {
	for ; n > 0; n-- {
		<-q.slots
	}
}

// receiveAndStart uses n slots that were reserved. The end of ctx does not break a receive off, or
// messages would be leased that nobody handles.
func (q *queue[Tx]) receiveAndStart(ctx, values context.Context, n int, after int64) ([]*Message, error) {
	brief, cancel := context.WithTimeout(values, 30*time.Second)
	defer cancel()
	began := time.Now()
	messages, err := q.receive(brief, n, after)
	if err != nil {
		q.release(n)
		return nil, err
	}
	q.release(n - len(messages))
	for _, m := range messages {
		r := q.track(values, m, began.Add(q.settings.lease))
		if ctx.Err() != nil {
			q.cancel(r, ErrStopping)
		}
		q.handlers.Add(1)
		go func() {
			defer q.release(1)
			defer q.handlers.Done()
			r.handle()
		}()
	}
	return messages, nil
}

// receive leases up to n messages. On SQLite that is a transaction that writes.
func (q *queue[Tx]) receive(ctx context.Context, n int, after int64) (messages []*Message, err error) {
	client, s := q.worker.client, &q.settings
	args := []any{q.name, n, interval(s.lease), s.maxAttempts}
	if client.words.takesAfter {
		args = append(args, after)
		rows, err := client.driver.Query(ctx, client.words.receive, args...)
		return scan(rows, err, q.name)
	}
	err = client.driver.InTx(ctx, func(tx Tx) error {
		rows, err := client.driver.QueryTx(ctx, tx, client.words.receive, args...)
		messages, err = scan(rows, err, q.name)
		return err
	})
	return messages, err
}
