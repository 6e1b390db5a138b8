//go:build debian

package test

import (
	"testing"

	_ "github.com/lib/pq"
)

func TestPq(t *testing.T) { suite(t, postgresSQL(t, "postgres")) }
