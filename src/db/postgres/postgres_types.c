/*
 * The types of parameters on a connection on which the same statements run for many tables.
 *
 * The server infers them, which costs a round trip, and they are the same for each table.  A statement is known by
 * its text without what stands in double quotes, the names of tables.
 */
#include <stdlib.h>
#include <string.h>

#include "db/postgres/postgres.h"

typedef struct postgres_types {
	uint64_t key;
	int n;
	Oid types[WH_STMT_PARAMS];
} postgres_types;

/* FNV-1a of 64 bits. */
static uint64_t key_of(const wh_stmt *stmt)
{
	uint64_t key = 14695981039346656037u;
	bool quoted = false;

	for (const char *p = stmt->text; *p; p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (!quoted)
			key = (key ^ (unsigned char)*p) * 1099511628211u;
	}
	return key;
}

static postgres_types *find(const postgres_db *s, const wh_stmt *stmt, uint64_t key)
{
	for (size_t i = 0; i < s->n_types; i++)
		if (s->types[i].key == key && s->types[i].n == stmt->n_params)
			return &s->types[i];
	return NULL;
}

void wh_postgres_recall(const postgres_db *s, postgres_stmt *c)
{
	const postgres_types *known =
		s->many_tables ? find(s, c->stmt, key_of(c->stmt)) : NULL;

	if (!known)
		return;
	memcpy(c->types, known->types, sizeof(c->types));
	c->described = true;
}

/* Without memory it is asked for again. */
void wh_postgres_remember(postgres_db *s, const postgres_stmt *c)
{
	uint64_t key = key_of(c->stmt);
	postgres_types *grown;

	if (!s->many_tables || find(s, c->stmt, key))
		return;
	grown = reallocarray(s->types, s->n_types + 1, sizeof(*grown));
	if (!grown)
		return;
	s->types = grown;
	grown[s->n_types] = (postgres_types){.key = key, .n = c->stmt->n_params};
	memcpy(grown[s->n_types++].types, c->types, sizeof(c->types));
}

void wh_postgres_forget_types(postgres_db *s)
{
	free(s->types);
	s->types = NULL;
	s->n_types = 0;
}
