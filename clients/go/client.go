// Package wherry sends messages to Wherry's queues and outboxes in your own transactions, and runs
// workers that handle them.
//
// It calls the SQL functions that `wherry create` makes on PostgreSQL, and those of the extension
// wherry.so on SQLite. Postgres and SQLite take a *sql.DB; package wherrypgx takes a pgxpool.Pool.
package wherry

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Client sends messages. Tx is its driver's type of a transaction: *sql.Tx or pgx.Tx.
type Client[Tx any] struct {
	driver Driver[Tx]
	words  *dialect
}

// NewPostgres returns a client of a database on PostgreSQL. It is for drivers of your own: see
// Postgres and wherrypgx.New.
func NewPostgres[Tx any](driver Driver[Tx]) *Client[Tx] {
	return &Client[Tx]{driver, &postgres}
}

// SendOptions of a message. The zero value of each means the default.
type SendOptions struct {
	Delay         time.Duration // until the message can be received
	Expires       time.Duration // after which nobody receives the message
	Headers       map[string]string
	CorrelationID string
	ReplyTo       string
	MessageID     string
}

// Outgoing is one of the messages of SendMany.
type Outgoing struct {
	Body any
	SendOptions
}

// EnqueueOptions of a message for an outbox. The zero value of each means the default.
type EnqueueOptions struct {
	Key           string // messages of one key are delivered in order
	Headers       map[string]string
	MessageID     string
	AggregateType string
	AggregateID   string
	TraceID       string
	Outbox        string // "outbox" if it is empty
}

// InTx runs do in a transaction, and commits if it returns nil.
func (c *Client[Tx]) InTx(ctx context.Context, do func(tx Tx) error) error {
	return c.driver.InTx(ctx, do)
}

// Send sends a message to a queue in your transaction, and returns its id. A body of type []byte,
// string or json.RawMessage is sent as it is, any other as JSON. The options may be nil.
func (c *Client[Tx]) Send(ctx context.Context, tx Tx, queue string, body any, options *SendOptions) (int64, error) {
	if options == nil {
		options = &SendOptions{}
	}
	bytes, err := bodyOf(body)
	if err != nil {
		return 0, fmt.Errorf("wherry: message for queue %q: %w", queue, err)
	}
	headers, err := headersOf(options.Headers)
	if err != nil {
		return 0, err
	}
	text, isText := c.words.body(bytes)
	rows, err := c.driver.QueryTx(ctx, tx, c.words.send(isText), queue, text, headers,
		interval(options.Delay), interval(options.Expires), orNull(options.CorrelationID),
		orNull(options.ReplyTo), orNull(options.MessageID))
	var id int64
	err = one(rows, err, &id)
	return id, wrap(err, "cannot send to queue", queue)
}

// SendMany sends all messages or none, and returns their ids.
func (c *Client[Tx]) SendMany(ctx context.Context, tx Tx, queue string, messages []Outgoing) ([]int64, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	columns := make([][]any, 7)
	texts := true
	for i, m := range messages {
		bytes, err := bodyOf(m.Body)
		if err != nil {
			return nil, fmt.Errorf("wherry: message %d for queue %q: %w", i+1, queue, err)
		}
		headers, err := headersOf(m.Headers)
		if err != nil {
			return nil, err
		}
		_, isText := c.words.body(bytes)
		texts = texts && isText
		for n, value := range []any{bytes, headers, interval(m.Delay), interval(m.Expires),
			orNull(m.CorrelationID), orNull(m.ReplyTo), orNull(m.MessageID)} {
			columns[n] = append(columns[n], value)
		}
	}
	args := []any{queue}
	for _, column := range columns {
		array, err := c.words.array(column, texts)
		if err != nil {
			return nil, wrap(err, "cannot send to queue", queue)
		}
		args = append(args, array)
	}
	rows, err := c.driver.QueryTx(ctx, tx, c.words.sendMany(texts), args...)
	var list string
	if err = one(rows, err, &list); err != nil {
		return nil, wrap(err, "cannot send to queue", queue)
	}
	var ids []int64
	for _, word := range strings.Split(strings.Trim(list, "[]"), ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(word), 10, 64)
		if err != nil {
			return nil, wrap(err, "cannot read the ids of queue", queue)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Enqueue adds a message to an outbox in your transaction, and returns its id. A relay delivers the
// message after the commit. The id is 0 if the outbox keeps message ids unique and has this one.
// The options may be nil.
func (c *Client[Tx]) Enqueue(ctx context.Context, tx Tx, topic string, body any, options *EnqueueOptions) (int64, error) {
	if options == nil {
		options = &EnqueueOptions{}
	}
	outbox := options.Outbox
	if outbox == "" {
		outbox = "outbox"
	}
	bytes, err := bodyOf(body)
	if err != nil {
		return 0, fmt.Errorf("wherry: message for outbox %q: %w", outbox, err)
	}
	headers, err := headersOf(options.Headers)
	if err != nil {
		return 0, err
	}
	text, isText := c.words.body(bytes)
	rows, err := c.driver.QueryTx(ctx, tx, c.words.enqueue(isText), topic, text, orNull(options.Key),
		orNull(options.MessageID), headers, options.AggregateType, options.AggregateID,
		orNull(options.TraceID), outbox)
	var id *int64
	if err = one(rows, err, &id); err != nil || id == nil {
		return 0, wrap(err, "cannot enqueue in outbox", outbox)
	}
	return *id, nil
}

func bodyOf(body any) ([]byte, error) {
	switch b := body.(type) {
	case []byte:
		return b, nil
	case json.RawMessage:
		return b, nil
	case string:
		return []byte(b), nil
	}
	return json.Marshal(body)
}

func headersOf(headers map[string]string) (string, error) {
	if len(headers) == 0 {
		return "{}", nil
	}
	text, err := json.Marshal(headers)
	return string(text), err
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// interval is a duration as both databases read it; NULL if it is 0.
func interval(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return fmt.Sprintf("%.6f s", d.Seconds())
}

func wrap(err error, what, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("wherry: %s %q: %w", what, name, err)
}

// one reads the only row of a statement.
func one(rows Rows, err error, into ...any) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return fmt.Errorf("the statement returned no row")
	}
	if err := rows.Scan(into...); err != nil {
		return err
	}
	rows.Next() // errors of the statement come behind its rows
	return rows.Err()
}
