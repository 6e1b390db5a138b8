// Receive signed webhooks, each once, in Go with pgx.
//
// usage: HOOK_SECRET=whsec_… go run receiver.go postgres://USER@HOST/DATABASE [PORT]
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v4/stdlib" // pgx/v5 works, too
)

const (
	tolerance = 5 * time.Minute // that a timestamp may differ from this clock
	bodyMax   = 1 << 20         // bytes
)

type receiver struct {
	db  *sql.DB
	key []byte
}

// genuine says whether a holder of the secret signed this request in the last minutes.
func (r *receiver) genuine(header http.Header, body []byte) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, r.key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	// While a secret is replaced, the sender signs with the old and the new one.
	for _, signature := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(signature), []byte(expected)) {
			return true
		}
	}
	return false
}

type orderPlaced struct {
	Order    *int64  `json:"order"`
	Customer *string `json:"customer"`
}

// ship does the work and records the id in one transaction. It returns false for a duplicate.
func (r *receiver) ship(ctx context.Context, id string, event orderPlaced) (bool, error) {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // without effect after Commit
	var isNew bool
	err = tx.QueryRowContext(ctx, "SELECT wherry_accept($1)", id).Scan(&isNew)
	if err != nil || !isNew {
		return false, err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO shipments(order_id, customer) VALUES ($1, $2)",
		event.Order, event.Customer)
	if err != nil {
		return false, err
	}
	return true, tx.Commit()
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, bodyMax))
	if err != nil {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	if !r.genuine(request.Header, body) {
		http.Error(w, "the signature or its time is wrong", http.StatusUnauthorized)
		return
	}
	var event orderPlaced
	if json.Unmarshal(body, &event) != nil || event.Order == nil || event.Customer == nil {
		http.Error(w, "the body is not an order", http.StatusUnprocessableEntity)
		return
	}
	isNew, err := r.ship(request.Context(), request.Header.Get("webhook-id"), event)
	if err != nil {
		log.Print(err)
		http.Error(w, "the database failed, try again", http.StatusInternalServerError)
	} else if isNew {
		fmt.Fprint(w, "shipped")
	} else {
		fmt.Fprint(w, "received before")
	}
}

func main() {
	secret := strings.TrimPrefix(os.Getenv("HOOK_SECRET"), "whsec_")
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || len(key) == 0 {
		log.Fatal("HOOK_SECRET must be whsec_ and base64")
	}
	db, err := sql.Open("pgx", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	port := "8080"
	if len(os.Args) > 2 {
		port = os.Args[2]
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s/\n", listener.Addr())
	server := http.Server{Handler: &receiver{db, key}, ReadTimeout: time.Minute}
	log.Fatal(server.Serve(listener))
}
