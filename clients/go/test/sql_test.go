package test

import (
	"context"
	"database/sql"
	"os"
	"testing"

	wherry "wherry.dev/go"
)

// postgresSQL is PostgreSQL through database/sql, without notifications.
func postgresSQL(t *testing.T, driver string) *place[*sql.Tx] {
	url := os.Getenv("WHERRY_TEST_URL")
	if url == "" {
		t.Skip("no PostgreSQL")
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	p := &place[*sql.Tx]{url: url, client: wherry.Postgres(db), exec: execSQL}
	p.ask = func(question string) (answer string) {
		if err := db.QueryRow("SELECT (" + question + ")::text").Scan(&answer); err != nil {
			return err.Error()
		}
		return answer
	}
	return p
}

func execSQL(ctx context.Context, tx *sql.Tx, statement string, args ...any) error {
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}
