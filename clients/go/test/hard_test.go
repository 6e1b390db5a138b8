//go:build !debian

package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	wherry "wherry.dev/go"
	"wherry.dev/go/wherrypgx"
)

// A message that nobody polls for arrives, because the sender notifies.
func TestPgxIsWoken(t *testing.T) { woken(t, postgresPgx(t)) }

func TestDatabaseSQLIsWoken(t *testing.T) {
	p := postgresSQL(t, "pgx")
	p.client = wherry.Postgres(openSQL(t, "pgx"), wherrypgx.Listen(p.url))
	woken(t, p)
}

func TestSQLiteIsWoken(t *testing.T) { woken(t, onSQLite(t, filepath.Join(t.TempDir(), "shop.db"))) }

func woken[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	arrived := make(chan time.Time, 1)
	w := wherry.NewWorker(p.client)
	w.Handle(queue, func(context.Context, *wherry.Message) error {
		arrived <- time.Now()
		return nil
	}, wherry.Poll(time.Hour))
	work(t, w)
	var sum time.Duration
	const times = 20
	for i := 0; i < times; i++ {
		time.Sleep(30 * time.Millisecond) // idle or about to be; both must work
		sent := time.Now()
		p.send(t, queue, "a", nil)
		select {
		case at := <-arrived:
			sum += at.Sub(sent)
		case <-time.After(10 * time.Second):
			t.Fatal("no handler was called within 10 s")
		}
	}
	t.Logf("%v from before the send to the handler, the mean of %d", sum/times, times)
}

// Connections of a worker are ended again and again: what it writes in transactions is written once.
func TestPgxConnectionsEnd(t *testing.T) {
	p := postgresPgx(t)
	queue := p.queue(t)
	table := p.table(t, queue)
	p.run(t, fmt.Sprintf("SELECT wherry_send('%s', n::text) FROM generate_series(1, 800) AS n", queue))
	var e events
	w := wherry.NewWorker(p.client, e.options()...)
	w.HandleTx(queue, func(ctx context.Context, tx pgx.Tx, m *wherry.Message) error {
		if _, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", string(m.Body)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT pg_sleep(0.04 * random())")
		return err
	}, wherry.Backoff(soon), wherry.MaxAttempts(0), wherry.Lease(3*time.Second))
	stop := work(t, w)
	killer := openSQL(t, "pgx")
	ended := 0
	for i := 0; i < 15; i++ {
		until(t, "the worker works", func() bool { return e.count("done") >= 30*i+5 })
		var n int
		if err := killer.QueryRow(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		ended += n
	}
	until(t, "the queue is empty", func() bool { return p.ask("SELECT count(*) FROM "+queue) == "0" })
	if got := p.ask("SELECT count(*) || ' ' || count(DISTINCT body) FROM " + table); got != "800 800" {
		t.Error(got)
	}
	t.Logf("%d connections ended; events: %d done, %d failed, %d lost, %d returned", ended, e.count("done"),
		e.count("failed"), e.count("lost"), e.count("returned"))
	if err := stop(); err != nil {
		t.Error(err)
	}
	woken(t, p)
}

// A handler that ignores its context does not keep the worker from stopping, and its transaction does not
// commit.
func TestHandlerThatDoesNotReturn(t *testing.T) {
	p := postgresPgx(t)
	queue := p.queue(t)
	table := p.table(t, queue)
	w := wherry.NewWorker(p.client, wherry.Grace(10*time.Millisecond))
	begun, goOn, returned := make(chan bool), make(chan bool), make(chan error, 1)
	w.Use(func(next wherry.Handler) wherry.Handler {
		return func(ctx context.Context, m *wherry.Message) error {
			err := next(ctx, m)
			returned <- err
			return err
		}
	})
	w.HandleTx(queue, func(_ context.Context, tx pgx.Tx, m *wherry.Message) error {
		_, err := tx.Exec(background, "INSERT INTO "+table+" VALUES ('a')")
		close(begun)
		<-goOn
		return err
	})
	p.send(t, queue, "a", nil)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(background) }()
	<-begun
	w.Stop()
	if err := <-ended; err == nil {
		t.Error("Run does not say that a handler runs on")
	}
	if got := p.ask("SELECT state || ' ' || attempts FROM " + queue); got != "0 0" {
		t.Error("not given back:", got)
	}
	close(goOn)
	if err := <-returned; !errors.Is(err, wherry.ErrStopping) || p.ask("SELECT count(*) FROM "+table) != "0" {
		t.Error(err, p.ask("SELECT count(*) FROM "+table))
	}
}

// ---- workers that are killed ----

// TestMain is also the worker that is killed.
func TestMain(m *testing.M) {
	queue := os.Getenv("WHERRY_TEST_QUEUE")
	if queue == "" {
		os.Exit(m.Run())
	}
	testing.Init()
	t := &testing.T{}
	if file := os.Getenv("WHERRY_TEST_FILE"); file != "" {
		victim(onSQLite(t, file), queue)
	} else {
		victim(postgresPgx(t), queue)
	}
}

func victim[Tx any](p *place[Tx], queue string) {
	w := wherry.NewWorker(p.client)
	insert := "INSERT INTO " + queue + "_done VALUES ($1)"
	options := []wherry.Option{wherry.Lease(time.Second), wherry.MaxAttempts(0), wherry.Poll(50 * time.Millisecond)}
	if os.Getenv("WHERRY_TEST_TX") != "" {
		w.HandleTx(queue, func(ctx context.Context, tx Tx, m *wherry.Message) error {
			err := p.exec(ctx, tx, insert, string(m.Body))
			time.Sleep(time.Duration(rand.Intn(4)) * time.Millisecond)
			return err
		}, options...)
	} else {
		w.Handle(queue, func(ctx context.Context, m *wherry.Message) error {
			return p.client.InTx(ctx, func(tx Tx) error { return p.exec(ctx, tx, insert, string(m.Body)) })
		}, options...)
	}
	fmt.Fprintln(os.Stderr, w.Run(background))
	os.Exit(1)
}

func TestKilledPgx(t *testing.T) { kills(t, postgresPgx(t), "", true, 3000) }

func TestKilledPgxWithoutTransaction(t *testing.T) { kills(t, postgresPgx(t), "", false, 3000) }

func TestKilledSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	kills(t, onSQLite(t, file), file, true, 1000)
}

func kills[Tx any](t *testing.T, p *place[Tx], file string, inTx bool, messages int) {
	queue := p.queue(t)
	table := p.table(t, queue)
	var all []wherry.Outgoing
	for i := 0; i < messages; i++ {
		all = append(all, wherry.Outgoing{Body: fmt.Sprint(i)})
	}
	if err := p.client.InTx(background, func(tx Tx) error {
		_, err := p.client.SendMany(background, tx, queue, all)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		worker := exec.Command(os.Args[0])
		worker.Env = append(os.Environ(), "WHERRY_TEST_QUEUE="+queue, "WHERRY_TEST_FILE="+file)
		if inTx {
			worker.Env = append(worker.Env, "WHERRY_TEST_TX=1")
		}
		worker.Stderr = os.Stderr
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		return worker
	}
	workers := []*exec.Cmd{start(), start()}
	killed := 0
	empty := func() bool { return p.ask("SELECT count(*) FROM "+queue) == "0" }
	for begin := time.Now(); !empty() && time.Since(begin) < time.Minute; {
		if killed < 20 {
			time.Sleep(time.Duration(50+rand.Intn(250)) * time.Millisecond)
			i := rand.Intn(len(workers))
			workers[i].Process.Kill()
			workers[i].Wait()
			workers[i] = start()
			killed++
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, worker := range workers {
		worker.Process.Kill()
		worker.Wait()
	}
	lost := p.ask(fmt.Sprintf("SELECT %d - count(DISTINCT body) FROM %s", messages, table))
	twice := p.ask("SELECT count(*) - count(DISTINCT body) FROM " + table)
	t.Logf("%d messages, %d kills: lost %s, done twice %s", messages, killed, lost, twice)
	if !empty() || lost != "0" || (inTx && twice != "0") {
		t.Error("left in the queue:", p.ask("SELECT count(*) FROM "+queue))
	}
}
