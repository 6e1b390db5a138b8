package wherry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A waker has the worker's connection that is notified. One goroutine uses the connection; the
// queues ask it to listen, and wait for notifications.
type waker struct {
	connect func(context.Context) (Listener, error)
	report  func(queue string, err error)

	mu        sync.Mutex
	usable    bool // there is a connection
	never     bool // the driver has none
	asked     []*request
	interrupt context.CancelFunc       // ends the wait of the connection, for a request
	waiting   map[string]chan struct{} // of the queues that listen
}

type request struct {
	queue  string
	listen bool // false: unlisten
	answer chan bool
}

// A queue that waits listens again at each poll, so a connection that was lost without a word is noticed.
const callTimeout = 10 * time.Second

func newWaker(connect func(context.Context) (Listener, error), report func(string, error)) *waker {
	return &waker{connect: connect, report: report, waiting: map[string]chan struct{}{}}
}

// listen returns a channel that gets a value at each notification; nil if there is none now.
func (w *waker) listen(ctx context.Context, queue string) <-chan struct{} {
	w.mu.Lock()
	if w.waiting[queue] == nil {
		w.waiting[queue] = make(chan struct{}, 1)
	}
	woken := w.waiting[queue]
	w.mu.Unlock()
	if !w.ask(ctx, queue, true) {
		return nil
	}
	return woken
}

func (w *waker) unlisten(ctx context.Context, queue string) {
	w.ask(ctx, queue, false)
	w.mu.Lock()
	delete(w.waiting, queue)
	w.mu.Unlock()
}

func (w *waker) isNever() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.never
}

func (w *waker) ask(ctx context.Context, queue string, listen bool) bool {
	r := &request{queue, listen, make(chan bool, 1)}
	w.mu.Lock()
	if !w.usable {
		w.mu.Unlock()
		return false
	}
	w.asked = append(w.asked, r)
	if w.interrupt != nil {
		w.interrupt()
	}
	w.mu.Unlock()
	select {
	case answer := <-r.answer:
		return answer
	case <-ctx.Done():
		return false
	}
}

// run connects, again after each failure, until ctx ends.
func (w *waker) run(ctx context.Context) {
	pause := 100 * time.Millisecond
	for ctx.Err() == nil {
		conn, err := w.connect(ctx)
		if errors.Is(err, ErrCannotListen) {
			w.mu.Lock()
			w.never = true
			w.mu.Unlock()
			return
		}
		if err == nil {
			began := time.Now()
			err = w.serve(ctx, conn)
			conn.Close()
			if time.Since(began) > time.Minute {
				pause = 100 * time.Millisecond
			}
		}
		if ctx.Err() != nil {
			return
		}
		w.report("", fmt.Errorf("the connection that listens failed, next attempt in %v: %w", pause, err))
		sleep(ctx, pause)
		if pause *= 2; pause > 5*time.Second {
			pause = 5 * time.Second
		}
	}
}

// serve uses a connection until it fails. Then all queues look themselves.
func (w *waker) serve(ctx context.Context, conn Listener) (err error) {
	w.mu.Lock()
	w.usable = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.usable = false
		for _, r := range w.asked {
			r.answer <- false
		}
		w.asked = nil
		w.mu.Unlock()
		w.wakeAll()
	}()
	for {
		w.mu.Lock()
		asked := w.asked
		w.asked = nil
		w.mu.Unlock()
		for i, r := range asked {
			listens, err := do(ctx, conn, r)
			if err != nil {
				for _, r := range asked[i:] {
					r.answer <- false
				}
				return err
			}
			r.answer <- listens
		}
		if woken, err := w.await(ctx, conn); err != nil {
			return err
		} else if woken {
			w.wakeAll()
		}
	}
}

func do(ctx context.Context, conn Listener, r *request) (bool, error) {
	brief, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if r.listen {
		return conn.Listen(brief, r.queue)
	}
	return false, conn.Unlisten(brief, r.queue)
}

// await waits for a notification or a request.
func (w *waker) await(ctx context.Context, conn Listener) (woken bool, err error) {
	brief, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	if len(w.asked) > 0 {
		w.mu.Unlock()
		return false, nil
	}
	w.interrupt = cancel
	w.mu.Unlock()
	err = conn.Wait(brief)
	w.mu.Lock()
	w.interrupt = nil
	w.mu.Unlock()
	if err == nil {
		return true, nil
	}
	if brief.Err() != nil {
		return false, ctx.Err() // nil: there is a request
	}
	return false, err
}

func (w *waker) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, woken := range w.waiting {
		select {
		case woken <- struct{}{}:
		default: // it is woken already
		}
	}
}

// sleep returns false if ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
