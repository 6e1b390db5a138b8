package wherry

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A dialect has the statements of a database. Arguments stand in the same order in both. Those of
// PostgreSQL are passed as text and cast by the server, so that every driver understands them.
type dialect struct {
	send, sendMany, enqueue func(isText bool) string

	exists, receive, ack, nack, extend, extendMany, dead string

	takesAfter bool // receive has the argument after
	oneWriter  bool // one transaction that writes at a time

	// body returns the argument for a body, and whether it is text.
	body func(body []byte) (any, bool)

	// array returns the argument for an array of bodies, texts or NULL.
	array func(elements []any, texts bool) (any, error)

	ids func(ids []int64) string
}

var postgres = dialect{
	send: func(isText bool) string {
		return "SELECT wherry_send($1::text, $2::" + bodyType(isText) + ", $3::text::json, $4::text::interval, " +
			"$5::text::interval, $6::text, $7::text, $8::text)"
	},
	sendMany: func(isText bool) string {
		return "SELECT array_to_string(wherry_send_many($1::text, $2::text::" + bodyType(isText) + "[], $3::text::json[], " +
			"$4::text::interval[], $5::text::interval[], $6::text::text[], $7::text::text[], $8::text::text[]), ',')"
	},
	enqueue: func(isText bool) string {
		return "SELECT wherry_enqueue($1::text, $2::" + bodyType(isText) + ", $3::text, $4::text, $5::text::json, " +
			"$6::text, $7::text, $8::text, outbox => $9::text)"
	},
	exists: "SELECT count(*) FROM wherry_receive($1::text, 0)",
	receive: "SELECT id, message_id, topic, correlation_id, reply_to, headers::text, body, bytes, attempts, token, " +
		"(extract(epoch FROM created_at) * 1000)::bigint " +
		"FROM wherry_receive($1::text, $2::integer, $3::text::interval, $4::integer, $5::bigint)",
	ack:        "SELECT wherry_ack($1::text, $2::bigint, $3::text)",
	nack:       "SELECT wherry_nack($1::text, $2::bigint, $3::text, $4::text::interval, $5::text, $6::boolean)",
	extend:     "SELECT wherry_extend($1::text, $2::bigint, $3::text, $4::text::interval)",
	extendMany: "SELECT wherry_extend_many($1::text, $2::text::bigint[], $3::text, $4::text::interval)",
	dead:       "SELECT wherry_dead_letter($1::text, $2::bigint, $3::text, $4::text)",
	takesAfter: true,
	body: func(body []byte) (any, bool) {
		if utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 {
			return string(body), true
		}
		return body, false
	},
	array: postgresArray,
	ids:   func(ids []int64) string { return "{" + joined(ids) + "}" },
}

var sqlite = dialect{
	oneWriter: true,
	send:      func(bool) string { return "SELECT wherry_send(?, ?, ?, ?, ?, ?, ?, ?)" },
	sendMany:  func(bool) string { return "SELECT wherry_send_many(?, ?, ?, ?, ?, ?, ?, ?)" },
	enqueue: func(bool) string {
		return "SELECT wherry_enqueue(?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
	},
	exists: "SELECT wherry_queue_length(?)",
	receive: "SELECT id, message_id, topic, correlation_id, reply_to, headers, NULL, bytes, attempts, token, " +
		"created_at FROM wherry_receive(?, ?, ?, ?)",
	ack:        "SELECT wherry_ack(?, ?, ?)",
	nack:       "SELECT wherry_nack(?, ?, ?, ?, ?, ?)",
	extend:     "SELECT wherry_extend(?, ?, ?, ?)",
	extendMany: "SELECT wherry_extend_many(?, ?, ?, ?)",
	dead:       "SELECT wherry_dead_letter(?, ?, ?, ?)",
	body: func(body []byte) (any, bool) {
		if utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 {
			return string(body), true
		}
		return body, false
	},
	array: func(elements []any, texts bool) (any, error) {
		list := make([]any, len(elements))
		empty := true
		for i, element := range elements {
			if body, is := element.([]byte); is {
				if !texts && !utf8.Valid(body) {
					return nil, fmt.Errorf("message %d: the body is not UTF-8, which SendMany cannot send on SQLite; use Send", i+1)
				}
				element = string(body)
			}
			list[i] = element
			empty = empty && element == nil
		}
		if empty {
			return nil, nil
		}
		text, err := json.Marshal(list)
		return string(text), err
	},
	ids: func(ids []int64) string { return "[" + joined(ids) + "]" },
}

func bodyType(isText bool) string {
	if isText {
		return "text"
	}
	return "bytea"
}

// postgresArray is an array's literal. Bodies are []byte, other elements text or nil.
func postgresArray(elements []any, texts bool) (any, error) {
	var array strings.Builder
	empty := true
	for i, element := range elements {
		if i > 0 {
			array.WriteByte(',')
		}
		var text string
		switch e := element.(type) {
		case nil:
			array.WriteString("NULL")
			continue
		case []byte:
			text = string(e)
			if !texts {
				text = `\x` + hex.EncodeToString(e)
			}
		case string:
			text = e
		}
		empty = false
		array.WriteByte('"')
		array.WriteString(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text))
		array.WriteByte('"')
	}
	if empty {
		return nil, nil
	}
	return "{" + array.String() + "}", nil
}

func joined(ids []int64) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(words, ",")
}

// scan reads the messages that receive returns.
func scan(rows Rows, err error, queue string) ([]*Message, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var messages []*Message
	for rows.Next() {
		m := &Message{Queue: queue}
		var topic, correlation, reply, headers, body *string
		var created int64
		err := rows.Scan(&m.ID, &m.MessageID, &topic, &correlation, &reply, &headers, &body, &m.Body, &m.Attempt,
			&m.token, &created)
		if err != nil {
			return nil, err
		}
		m.Topic, m.CorrelationID, m.ReplyTo = text(topic), text(correlation), text(reply)
		if body != nil {
			m.Body = []byte(*body)
		}
		if headers != nil {
			if err := json.Unmarshal([]byte(*headers), &m.Headers); err != nil {
				return nil, fmt.Errorf("headers of message %d: %w", m.ID, err)
			}
		}
		m.CreatedAt = time.UnixMilli(created)
		messages = append(messages, m)
	}
	return messages, rows.Err()
}

func text(from *string) string {
	if from == nil {
		return ""
	}
	return *from
}
