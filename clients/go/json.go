package wherry

import (
	"context"
	"encoding/json"
	"fmt"
)

// JSON returns a handler whose messages are JSON. One that cannot be decoded fails as if the handler had:
// a newer worker may understand it.
func JSON[T any](handler func(ctx context.Context, body T, m *Message) error) Handler {
	return func(ctx context.Context, m *Message) error {
		body, err := decode[T](m)
		if err != nil {
			return err
		}
		return handler(ctx, body, m)
	}
}

// JSONTx returns a handler for HandleTx whose messages are JSON.
func JSONTx[Tx, T any](handler func(ctx context.Context, tx Tx, body T, m *Message) error) func(context.Context, Tx, *Message) error {
	return func(ctx context.Context, tx Tx, m *Message) error {
		body, err := decode[T](m)
		if err != nil {
			return err
		}
		return handler(ctx, tx, body, m)
	}
}

func decode[T any](m *Message) (body T, err error) {
	if err := json.Unmarshal(m.Body, &body); err != nil {
		return body, fmt.Errorf("the body of message %d is not as expected: %w", m.ID, err)
	}
	return body, nil
}
