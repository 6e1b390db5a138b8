// Work on a queue, from Go with pgx: write the mails that the jobs ask for.
//
// What a job writes and its acknowledgement are one transaction, so each job takes effect once.
//
// usage: go run worker.go postgres://USER@HOST/DATABASE QUEUE [--until-empty]
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v4/stdlib" // pgx/v5 works, too
)

const (
	attemptsMost = 5
	lookAgain    = 10
)

var errLeaseLost = errors.New("another worker has it")

type message struct {
	id       int64
	body     string
	attempts int
	token    string
}

// handle does a job, in the transaction that is open.
func handle(ctx context.Context, tx *sql.Tx, body string) error {
	var job struct {
		Order *int64 `json:"order"`
	}
	if err := json.Unmarshal([]byte(body), &job); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO mails(order_id) VALUES ($1)", job.Order)
	return err
}

func handleAndAck(ctx context.Context, db *sql.DB, queue string, m message) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // without effect after Commit

	if err := handle(ctx, tx, m.body); err != nil {
		return err
	}
	var held bool
	err = tx.QueryRowContext(ctx, "SELECT wherry_ack($1, $2, $3)",
		queue, m.id, m.token).Scan(&held)
	if err != nil {
		return err
	}
	if !held {
		return errLeaseLost
	}
	return tx.Commit()
}

func work(ctx context.Context, db *sql.DB, queue string, m message) error {
	why := handleAndAck(ctx, db, queue, m)
	if why == nil {
		fmt.Println("done:", m.id)
		return nil
	}
	if errors.Is(why, errLeaseLost) {
		fmt.Println("another worker has it:", m.id)
		return nil
	}
	fmt.Println("failed:", m.id)
	var err error
	if m.attempts < attemptsMost {
		delay := fmt.Sprintf("%d s", 1<<m.attempts)
		_, err = db.ExecContext(ctx,
			"SELECT wherry_nack($1, $2, $3, delay => $4::text::interval, error => $5)",
			queue, m.id, m.token, delay, why.Error())
	} else {
		_, err = db.ExecContext(ctx, "SELECT wherry_dead_letter($1, $2, $3, $4)",
			queue, m.id, m.token, why.Error())
	}
	return err
}

func receive(ctx context.Context, db *sql.DB, queue string, after int64) ([]message, error) {
	rows, err := db.QueryContext(ctx,
		"SELECT id, body, attempts, token FROM wherry_receive($1, 10, '1 minute', $2, $3)",
		queue, attemptsMost, after)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []message
	for rows.Next() {
		var m message
		if err := rows.Scan(&m.id, &m.body, &m.attempts, &m.token); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, rows.Err()
}

// listen has senders notify this connection; false: another time.
func listen(ctx context.Context, conn *sql.Conn, queue string) (listens bool, err error) {
	err = conn.QueryRowContext(ctx, "SELECT wherry_listen($1)", queue).Scan(&listens)
	return listens, err
}

// wait waits for a sender.  Not for longer, since messages also come when their time has come.
func wait(ctx context.Context, conn *sql.Conn) error {
	return conn.Raw(func(driver any) error {
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := driver.(*stdlib.Conn).Conn().WaitForNotification(brief)
		if brief.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	})
}

func main() {
	ctx := context.Background()
	queue, untilEmpty := os.Args[2], len(os.Args) > 3 && os.Args[3] == "--until-empty"
	db, err := sql.Open("pgx", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(ctx) // its own: that on which it listens
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	var after int64
	listens := false
	for receives := 1; ; receives++ {
		if receives%lookAgain == 0 {
			after = 0 // messages that were given back have lower ids
		}
		began := after
		messages, err := receive(ctx, db, queue, after)
		if err != nil {
			log.Fatal(err)
		}
		if len(messages) > 0 && listens {
			if _, err := conn.ExecContext(ctx, "SELECT wherry_unlisten($1)", queue); err != nil {
				log.Fatal(err)
			}
			listens = false
		}
		after = 0
		for _, m := range messages {
			after = m.id
			if err := work(ctx, db, queue, m); err != nil {
				log.Fatal(err)
			}
		}
		if len(messages) == 0 && began == 0 {
			if untilEmpty {
				return
			}
			if listens {
				err = wait(ctx, conn)
			} else if listens, err = listen(ctx, conn, queue); err == nil && !listens {
				time.Sleep(250 * time.Millisecond)
			} // else look once more, for what was sent before
			if err != nil {
				log.Fatal(err)
			}
		}
	}
}
