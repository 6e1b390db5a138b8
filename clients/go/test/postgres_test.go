//go:build !debian

package test

import (
	"context"
	"database/sql"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	wherry "wherry.dev/go"
	"wherry.dev/go/wherrypgx"
)

func postgresPgx(t *testing.T) *place[pgx.Tx] {
	url := os.Getenv("WHERRY_TEST_URL")
	if url == "" {
		t.Skip("no PostgreSQL")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 12
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &place[pgx.Tx]{
		url:    url,
		client: wherrypgx.New(pool),
		exec: func(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		},
		ask: func(sql string) (answer string) {
			if err := pool.QueryRow(context.Background(), "SELECT ("+sql+")::text").Scan(&answer); err != nil {
				return err.Error()
			}
			return answer
		},
	}
}

func TestPgx(t *testing.T) { suite(t, postgresPgx(t)) }

func TestDatabaseSQL(t *testing.T) {
	p := postgresSQL(t, "pgx")
	p.client = wherry.Postgres(openSQL(t, "pgx"), wherrypgx.Listen(p.url))
	suite(t, p)
}

func openSQL(t *testing.T, driver string) *sql.DB {
	db, err := sql.Open(driver, os.Getenv("WHERRY_TEST_URL"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
