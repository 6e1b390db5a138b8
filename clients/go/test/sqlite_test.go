//go:build !debian

package test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/mattn/go-sqlite3"
	wherry "wherry.dev/go"
)

func init() {
	sql.Register("sqlite3_wherry", &sqlite3.SQLiteDriver{Extensions: []string{os.Getenv("WHERRY_TEST_EXTENSION")}})
}

func onSQLite(t *testing.T, file string) *place[*sql.Tx] {
	db, err := sql.Open("sqlite3_wherry", "file:"+file+"?_busy_timeout=10000&_journal_mode=WAL")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	p := &place[*sql.Tx]{url: "sqlite:" + file, client: wherry.SQLite(db), exec: execSQL, sqlite: true}
	p.ask = func(question string) (answer string) {
		if err := db.QueryRow("SELECT CAST((" + question + ") AS TEXT)").Scan(&answer); err != nil {
			return err.Error()
		}
		return answer
	}
	return p
}

func TestSQLite(t *testing.T) { suite(t, onSQLite(t, filepath.Join(t.TempDir(), "shop.db"))) }
