// Package test has the tests of Wherry's client for Go against the real databases.
// tests/system/client_go.sh runs them, with these variables:
//
//	WHERRY_TEST_PROGRAM   the program wherry
//	WHERRY_TEST_EXTENSION the extension for SQLite, without .so
//	WHERRY_TEST_URL       a database on PostgreSQL
package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	wherry "wherry.dev/go"
)

// A place is a database with a driver, in which the tests have their queues.
type place[Tx any] struct {
	url    string // for the program wherry
	client *wherry.Client[Tx]
	exec   func(ctx context.Context, tx Tx, sql string, args ...any) error
	ask    func(sql string) string // the answer's only column and row
	sqlite bool
}

var numbers struct {
	sync.Mutex
	n int
}

// queue makes a queue that no other test uses.
func (p *place[Tx]) queue(t *testing.T) string {
	t.Helper()
	numbers.Lock()
	numbers.n++
	name := fmt.Sprintf("jobs_%d_%d", os.Getpid(), numbers.n)
	numbers.Unlock()
	args := []string{"create", "--kind", "queue", p.url + "#" + name}
	if !p.sqlite {
		args = append(args, "--payload", "text")
	}
	p.wherry(t, args...)
	return name
}

func (p *place[Tx]) wherry(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(os.Getenv("WHERRY_TEST_PROGRAM"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("wherry %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (p *place[Tx]) send(t *testing.T, queue string, body any, options *wherry.SendOptions) (id int64) {
	t.Helper()
	err := p.client.InTx(context.Background(), func(tx Tx) (err error) {
		id, err = p.client.Send(context.Background(), tx, queue, body, options)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (p *place[Tx]) run(t *testing.T, sql string, args ...any) {
	t.Helper()
	err := p.client.InTx(context.Background(), func(tx Tx) error {
		return p.exec(context.Background(), tx, sql, args...)
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// work runs a worker until the test, or the function it returns, ends it.
func work[Tx any](t *testing.T, w *wherry.Worker[Tx]) (stop func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			w.Stop()
			err = <-ended
		})
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil && !t.Failed() {
			t.Error("the worker ended with:", err)
		}
	})
	return stop
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 20 s: " + what)
		}
	}
}

// events are what a worker's metrics hook got.
type events struct {
	sync.Mutex
	names []string
	logs  []string
}

func (e *events) options() []wherry.WorkerOption {
	return []wherry.WorkerOption{
		wherry.OnEvent(func(event wherry.Event) {
			e.Lock()
			defer e.Unlock()
			if event.Name != wherry.EventReceived {
				e.names = append(e.names, event.Name)
			}
		}),
		wherry.Logf(func(format string, args ...any) {
			e.Lock()
			defer e.Unlock()
			e.logs = append(e.logs, fmt.Sprintf(format, args...))
		}),
	}
}

func (e *events) are(names ...string) func() bool {
	return func() bool {
		e.Lock()
		defer e.Unlock()
		return strings.Join(e.names, " ") == strings.Join(names, " ")
	}
}

func (e *events) count(name string) (n int) {
	e.Lock()
	defer e.Unlock()
	for _, one := range e.names {
		if one == name {
			n++
		}
	}
	return n
}
