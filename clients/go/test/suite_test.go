package test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wherry "wherry.dev/go"
)

var background = context.Background()

func soon(int) time.Duration { return time.Millisecond }

// suite is what every driver and database keeps.
func suite[Tx any](t *testing.T, p *place[Tx]) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *place[Tx])
	}{
		{"a_message_arrives_with_all_that_was_sent", arrives[Tx]},
		{"a_rolled_back_send_never_existed", rolledBack[Tx]},
		{"many_messages_are_sent_in_their_order", sendsMany[Tx]},
		{"an_outbox_takes_a_message_in_the_transaction", enqueues[Tx]},
		{"a_message_that_fails_is_tried_again_and_then_dead", fails[Tx]},
		{"dead_snooze_and_panic_do_what_they_say", says[Tx]},
		{"a_transaction_takes_effect_once", transaction[Tx]},
		{"a_transaction_without_its_lease_is_rolled_back", transactionLost[Tx]},
		{"a_lost_lease_cancels_the_handler", lost[Tx]},
		{"the_lease_of_a_long_handler_is_extended", extended[Tx]},
		{"a_worker_that_stops_waits_for_its_handlers", stops[Tx]},
		{"after_the_grace_period_messages_are_given_back", givesBack[Tx]},
		{"middleware_is_around_handlers", middleware[Tx]},
		{"json_bodies_are_decoded", decodes[Tx]},
		{"wrong_options_and_missing_queues_are_refused", refuses[Tx]},
	} {
		test := test
		t.Run(test.name, func(t *testing.T) { test.run(t, p) })
	}
}

func arrives[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	got := make(chan *wherry.Message, 3)
	w := wherry.NewWorker(p.client)
	w.Handle(queue, func(_ context.Context, m *wherry.Message) error {
		got <- m
		return nil
	})
	sent := time.Now()
	id := p.send(t, queue, map[string]string{"name": `Zoë "Zed" O'Hara \ 漢字`}, &wherry.SendOptions{
		Headers: map[string]string{"tenant": `a "b" \ 漢`}, CorrelationID: "c-1", ReplyTo: "answers", MessageID: "m-1",
		Expires: time.Hour})
	work(t, w)
	m := <-got
	if m.ID != id || m.Queue != queue || m.MessageID != "m-1" || m.CorrelationID != "c-1" || m.ReplyTo != "answers" ||
		m.Headers["tenant"] != `a "b" \ 漢` || m.Attempt != 1 || m.CreatedAt.Sub(sent).Abs() > time.Minute ||
		string(m.Body) != `{"name":"Zoë \"Zed\" O'Hara \\ 漢字"}` {
		t.Errorf("got %+v with %s", m, m.Body)
	}
	p.send(t, queue, "later", &wherry.SendOptions{Delay: 300 * time.Millisecond})
	began := time.Now()
	if m = <-got; string(m.Body) != "later" || time.Since(began) < 200*time.Millisecond {
		t.Errorf("got %s after %v", m.Body, time.Since(began))
	}
	until(t, "the queue is empty", func() bool { return p.ask("SELECT count(*) FROM "+queue) == "0" })
}

func rolledBack[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	no := errors.New("no")
	err := p.client.InTx(background, func(tx Tx) error {
		if _, err := p.client.Send(background, tx, queue, "a", nil); err != nil {
			t.Error(err)
		}
		return no
	})
	if err != no || p.ask("SELECT count(*) FROM "+queue) != "0" {
		t.Error(err, p.ask("SELECT count(*) FROM "+queue))
	}
}

func sendsMany[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	var ids []int64
	err := p.client.InTx(background, func(tx Tx) (err error) {
		ids, err = p.client.SendMany(background, tx, queue, []wherry.Outgoing{
			{Body: `a "quoted" \ text`}, {Body: []byte("b")},
			{Body: 7, SendOptions: wherry.SendOptions{Headers: map[string]string{"a": `"\`}, CorrelationID: "c"}}})
		return err
	})
	if err != nil || len(ids) != 3 || ids[0] >= ids[1] || ids[1] >= ids[2] {
		t.Fatal(ids, err)
	}
	var got []string
	var mu sync.Mutex
	w := wherry.NewWorker(p.client)
	w.Handle(queue, func(_ context.Context, m *wherry.Message) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s%s", m.Body, m.Headers["a"], m.CorrelationID))
		return nil
	}, wherry.Concurrency(1))
	work(t, w)
	until(t, "all three arrive in their order", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(got, "|") == `a "quoted" \ text |b |7 "\c`
	})
}

func enqueues[Tx any](t *testing.T, p *place[Tx]) {
	p.wherry(t, "create", p.url)
	err := p.client.InTx(background, func(tx Tx) error {
		id, err := p.client.Enqueue(background, tx, "orders", map[string]int{"order": 7},
			&wherry.EnqueueOptions{Key: "7", Headers: map[string]string{"a": "b"}, MessageID: "e-1"})
		if id < 1 {
			t.Error(id)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.ask("SELECT max(topic || ' ' || partition_key || ' ' || message_id) FROM outbox"); got != "orders 7 e-1" {
		t.Error(got)
	}
}

func fails[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	var e events
	w := wherry.NewWorker(p.client, e.options()...)
	w.Handle(queue, func(context.Context, *wherry.Message) error { return errors.New("the \x00 mail server is down") },
		wherry.MaxAttempts(3), wherry.Backoff(soon), wherry.Poll(20*time.Millisecond))
	p.send(t, queue, "a", nil)
	work(t, w)
	until(t, "it is dead", e.are("failed", "failed", "dead"))
	if got := p.ask("SELECT state || ' ' || attempts || ' ' || last_error FROM " + queue); got != "4 3 the  mail server is down" {
		t.Error(got)
	}
}

func says[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	var e events
	w := wherry.NewWorker(p.client, e.options()...)
	var snoozed, panicked atomic.Int32
	w.Handle(queue, func(_ context.Context, m *wherry.Message) error {
		switch string(m.Body) {
		case "dead":
			return fmt.Errorf("job: %w", wherry.Dead("there is no order %d", 7))
		case "snooze":
			if snoozed.Add(1) < 4 {
				return wherry.Snooze(time.Millisecond)
			}
		case "panic":
			if panicked.Add(1) == 1 {
				panic("a bug")
			}
		}
		return nil
	}, wherry.MaxAttempts(2), wherry.Backoff(soon), wherry.Poll(20*time.Millisecond))
	for _, body := range []string{"dead", "snooze", "panic"} {
		p.send(t, queue, body, nil)
	}
	work(t, w)
	until(t, "two are done", func() bool { return e.count("done") == 2 && e.count("dead") == 1 })
	if e.count("snoozed") != 3 || e.count("failed") != 1 {
		t.Error(e.names)
	}
	if got := p.ask("SELECT state || ' ' || attempts || ' ' || last_error FROM " + queue); got != "4 1 job: there is no order 7" {
		t.Error(got)
	}
}

// table makes a table of effects.
func (p *place[Tx]) table(t *testing.T, queue string) string {
	p.run(t, "CREATE TABLE "+queue+"_done(body text)")
	return queue + "_done"
}

func transaction[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	table := p.table(t, queue)
	for i := 0; i < 40; i++ {
		p.send(t, queue, fmt.Sprint(i), nil)
	}
	var once sync.Map
	var e events
	for i := 0; i < 2; i++ {
		w := wherry.NewWorker(p.client, e.options()...)
		w.HandleTx(queue, func(ctx context.Context, tx Tx, m *wherry.Message) error {
			if err := p.exec(ctx, tx, "INSERT INTO "+table+" VALUES ($1)", string(m.Body)); err != nil {
				return err
			}
			if _, again := once.LoadOrStore(m.ID, true); !again && m.ID%5 == 0 {
				return errors.New("after the insert")
			}
			return nil
		}, wherry.Backoff(soon), wherry.Poll(20*time.Millisecond))
		work(t, w)
	}
	until(t, "all are done", func() bool { return e.count("done") == 40 })
	if got := p.ask("SELECT count(*) || ' ' || count(DISTINCT body) FROM " + table); got != "40 40" || e.count("failed") != 8 {
		t.Error(got, e.names)
	}
	if got := p.ask("SELECT count(*) FROM " + queue); got != "0" {
		t.Error("in the queue are left:", got)
	}
}

func transactionLost[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	table := p.table(t, queue)
	var e events
	w := wherry.NewWorker(p.client, e.options()...)
	w.HandleTx(queue, func(ctx context.Context, tx Tx, m *wherry.Message) error {
		if m.Attempt == 1 { // as if another worker had received it
			if p.sqlite {
				p.exec(ctx, tx, "UPDATE "+queue+" SET lease_token = 'other'")
			} else {
				p.run(t, "UPDATE "+queue+" SET lease_token = 'other'")
			}
		}
		return p.exec(ctx, tx, "INSERT INTO "+table+" VALUES ($1)", string(m.Body))
	}, wherry.Lease(2*time.Second))
	p.send(t, queue, "a", nil)
	work(t, w)
	until(t, "the lease was lost", func() bool { return e.count("lost") == 1 })
	if p.sqlite { // the other token was rolled back, too
		return
	}
	if got := p.ask("SELECT count(*) FROM " + table); got != "0" {
		t.Error("rows of the transaction:", got)
	}
	p.run(t, "UPDATE "+queue+" SET available_at = now()")
	until(t, "it is done later", func() bool { return p.ask("SELECT count(*) FROM "+table) == "1" })
}

func lost[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	var e events
	w := wherry.NewWorker(p.client, e.options()...)
	why := make(chan error, 1)
	begun := make(chan bool, 1)
	w.Handle(queue, func(ctx context.Context, m *wherry.Message) error {
		begun <- true
		<-ctx.Done()
		why <- m.Cancelled()
		return nil // it does not count
	}, wherry.Lease(600*time.Millisecond))
	p.send(t, queue, "a", nil)
	work(t, w)
	<-begun
	p.run(t, "UPDATE "+queue+" SET lease_token = 'other'")
	if err := <-why; err != wherry.ErrLeaseLost {
		t.Error(err)
	}
	until(t, "the event says so", e.are("lost"))
}

func extended[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	var began, doneNow atomic.Int32
	var e events
	for i := 0; i < 2; i++ {
		w := wherry.NewWorker(p.client, e.options()...)
		w.Handle(queue, func(ctx context.Context, m *wherry.Message) error {
			began.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(1500 * time.Millisecond): // the lease would have ended twice
			}
			doneNow.Add(1)
			return ctx.Err()
		}, wherry.Lease(600*time.Millisecond), wherry.Poll(30*time.Millisecond))
		work(t, w)
	}
	for i := 0; i < 3; i++ {
		p.send(t, queue, "a", nil)
	}
	until(t, "all are done", e.are("done", "done", "done"))
	if began.Load() != 3 {
		t.Error("handlers began:", began.Load())
	}
}

func stops[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	var e events
	w := wherry.NewWorker(p.client, e.options()...)
	begun, goOn := make(chan bool, 2), make(chan bool)
	w.Handle(queue, func(context.Context, *wherry.Message) error {
		begun <- true
		<-goOn
		return nil
	}, wherry.Concurrency(2))
	for i := 0; i < 5; i++ {
		p.send(t, queue, "a", nil)
	}
	stop := work(t, w)
	<-begun
	<-begun
	go func() {
		w.Stop()
		close(goOn)
	}()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := e.count("done"); n < 2 || p.ask("SELECT count(*) FROM "+queue) != fmt.Sprint(5-n) ||
		p.ask("SELECT count(*) FROM "+queue+" WHERE state <> 0") != "0" {
		t.Error(e.names, p.ask("SELECT count(*) FROM "+queue))
	}
}

func givesBack[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	var e events
	w := wherry.NewWorker(p.client, append(e.options(), wherry.Grace(50*time.Millisecond))...)
	begun := make(chan bool, 2)
	w.Handle(queue, func(ctx context.Context, m *wherry.Message) error {
		begun <- true
		<-ctx.Done()
		if m.Cancelled() != wherry.ErrStopping {
			t.Error(m.Cancelled())
		}
		return ctx.Err()
	})
	p.send(t, queue, "a", nil)
	stop := work(t, w)
	<-begun
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := p.ask("SELECT state || ' ' || attempts FROM " + queue); got != "0 0" || !e.are("returned")() {
		t.Error(got, e.names)
	}
}

func middleware[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	steps := make(chan string, 9)
	step := func(name string) wherry.Middleware {
		return func(next wherry.Handler) wherry.Handler {
			return func(ctx context.Context, m *wherry.Message) error {
				steps <- name
				err := next(ctx, m)
				steps <- "/" + name
				return err
			}
		}
	}
	w := wherry.NewWorker(p.client)
	w.Use(step("log"), step("trace"))
	w.HandleTx(queue, func(context.Context, Tx, *wherry.Message) error {
		steps <- "handler"
		return nil
	})
	p.send(t, queue, "a", nil)
	work(t, w)
	var got []string
	for i := 0; i < 5; i++ {
		got = append(got, <-steps)
	}
	if strings.Join(got, " ") != "log trace handler /trace /log" {
		t.Error(got)
	}
}

func decodes[Tx any](t *testing.T, p *place[Tx]) {
	queue := p.queue(t)
	type job struct {
		Order int `json:"order"`
	}
	var e events
	got := make(chan int, 1)
	w := wherry.NewWorker(p.client, e.options()...)
	w.Handle(queue, wherry.JSON(func(_ context.Context, body job, _ *wherry.Message) error {
		got <- body.Order
		return nil
	}), wherry.MaxAttempts(1))
	p.send(t, queue, job{7}, nil)
	p.send(t, queue, "{", nil)
	work(t, w)
	if order := <-got; order != 7 {
		t.Error(order)
	}
	until(t, "the other is dead", func() bool { return e.count("dead") == 1 && e.count("done") == 1 })
	if got := p.ask("SELECT last_error FROM " + queue); !strings.Contains(got, "the body of message 2 is not as expected") {
		t.Error(got)
	}
}

func refuses[Tx any](t *testing.T, p *place[Tx]) {
	nothing := func(context.Context, *wherry.Message) error { return nil }
	for _, test := range []struct {
		with string
		make func(w *wherry.Worker[Tx])
	}{
		{"no handlers", func(*wherry.Worker[Tx]) {}},
		{"concurrency", func(w *wherry.Worker[Tx]) { w.Handle("a", nothing, wherry.Concurrency(0)) }},
		{"lease", func(w *wherry.Worker[Tx]) { w.Handle("a", nothing, wherry.Lease(-1)) }},
		{"two handlers", func(w *wherry.Worker[Tx]) { w.Handle("a", nothing); w.Handle("a", nothing) }},
		{"'absent'", func(w *wherry.Worker[Tx]) { w.Handle("absent", nothing) }},
	} {
		w := wherry.NewWorker(p.client)
		test.make(w)
		brief, cancel := context.WithTimeout(background, 5*time.Second)
		defer cancel()
		if err := w.Run(brief); err == nil || !strings.Contains(err.Error(), test.with) {
			t.Errorf("%s: %v", test.with, err)
		}
	}
	err := p.client.InTx(background, func(tx Tx) error {
		_, err := p.client.Send(background, tx, "absent", "a", nil)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "absent") {
		t.Error(err)
	}
}
