// Commit an order and its event together, from Go with pgx.
//
// usage: go run order.go postgres://USER@HOST/DATABASE
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	_ "github.com/jackc/pgx/v4/stdlib" // pgx/v5 works, too
)

var errRefused = errors.New("over the credit limit")

type orderPlaced struct {
	Order    int64  `json:"order"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

// placeOrder inserts an order and its event: both are committed, or neither.
func placeOrder(ctx context.Context, db *sql.DB, customer string, cents int64) (int64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // without effect after Commit

	event := orderPlaced{Customer: customer, Cents: cents}
	err = tx.QueryRowContext(ctx,
		"INSERT INTO orders(customer, cents) VALUES ($1, $2) RETURNING id",
		customer, cents).Scan(&event.Order)
	if err != nil {
		return 0, err
	}
	payload, err := json.Marshal(event)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, "SELECT wherry_enqueue('orders', $1, key => $2)",
		string(payload), strconv.FormatInt(event.Order, 10))
	if err != nil {
		return 0, err
	}
	if cents > 100_000 {
		return 0, fmt.Errorf("order %d is %w", event.Order, errRefused)
	}
	return event.Order, tx.Commit()
}

func main() {
	db, err := sql.Open("pgx", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, cents := range []int64{4_200, 420_000} {
		order, err := placeOrder(context.Background(), db, `Zoë "Zed" O'Hara \ 漢字`, cents)
		if errors.Is(err, errRefused) {
			fmt.Println("rolled back:", err)
		} else if err != nil {
			log.Fatal(err)
		} else {
			fmt.Println("committed: order", order)
		}
	}
}
