/*
 * Schemas that are used again.  To make the tables of a test takes a server longer than most tests
 * run on them: a test whose schema is as it was made leaves it, with its first rows, to the next
 * that wants the same.
 */
#include "postgres/server.h"

#include "wherry_test.h"

/* What was kept, and of whom: as the owner of the tables, and as a role. */
enum { KEPT = 2 };

typedef struct kept {
	postgres_place place;
	const void *recipe; /* NULL: nothing is kept here */
	char catalog[64];
	bool in_use;
} kept;

static kept all_kept[KEPT];

/* All that the catalogs know of the schema but where its rows are.  A row that was changed has another xmin; those of
 * pg_class change when a table is emptied.  Statistics and what depends on a table from outside count. */
static const char catalog_sql[] =
	"WITH s AS (SELECT current_schema()::regnamespace::oid AS oid), "
	"c AS (SELECT k.* FROM pg_class AS k, s WHERE k.relnamespace = s.oid) "
	"SELECT md5(string_agg(x, ' ' ORDER BY x)) FROM ("
	"SELECT concat_ws(' ', 'c', c.oid, relname, relkind, relowner, relacl, reloptions, relam, "
	"relhasrules, relrowsecurity, relforcerowsecurity, relreplident, relpersistence, "
	"relnatts, relchecks, reltablespace) AS x FROM c "
	"UNION ALL SELECT concat_ws(' ', 'a', attrelid, attnum, a.xmin) FROM pg_attribute AS a "
	"WHERE attrelid IN (SELECT oid FROM c) "
	"UNION ALL SELECT concat_ws(' ', 'i', indexrelid, i.xmin) FROM pg_index AS i "
	"WHERE indrelid IN (SELECT oid FROM c) "
	"UNION ALL SELECT concat_ws(' ', 'd', d.oid, d.xmin) FROM pg_attrdef AS d "
	"WHERE adrelid IN (SELECT oid FROM c) "
	"UNION ALL SELECT concat_ws(' ', 't', t.oid, t.xmin) FROM pg_trigger AS t "
	"WHERE tgrelid IN (SELECT oid FROM c) "
	"UNION ALL SELECT concat_ws(' ', 'r', r.oid, r.xmin) FROM pg_rewrite AS r "
	"WHERE ev_class IN (SELECT oid FROM c) "
	"UNION ALL SELECT concat_ws(' ', 'q', seqrelid, q.xmin) FROM pg_sequence AS q "
	"WHERE seqrelid IN (SELECT oid FROM c) "
	"UNION ALL SELECT concat_ws(' ', 'k', k.oid, k.xmin) FROM pg_constraint AS k, s "
	"WHERE connamespace = s.oid "
	"UNION ALL SELECT concat_ws(' ', 'p', p.oid, p.xmin) FROM pg_proc AS p, s "
	"WHERE pronamespace = s.oid "
	"UNION ALL SELECT concat_ws(' ', 'y', y.oid, y.xmin) FROM pg_type AS y, s "
	"WHERE typnamespace = s.oid "
	"UNION ALL SELECT concat_ws(' ', 'o', o.oid, o.xmin) FROM pg_operator AS o, s "
	"WHERE oprnamespace = s.oid "
	"UNION ALL SELECT concat_ws(' ', 'l', l.oid, l.xmin) FROM pg_default_acl AS l, s "
	"WHERE defaclnamespace = s.oid "
	"UNION ALL SELECT concat_ws(' ', 'n', n.oid, n.xmin) FROM pg_namespace AS n, s "
	"WHERE n.oid = s.oid "
	"UNION ALL SELECT concat_ws(' ', 'm', classoid, objoid, objsubid, m.xmin) "
	"FROM pg_description AS m WHERE objoid IN (SELECT oid FROM c UNION ALL SELECT p.oid "
	"FROM pg_proc AS p, s WHERE pronamespace = s.oid UNION ALL SELECT oid FROM s) "
	"UNION ALL SELECT concat_ws(' ', 'g', starelid, staattnum) FROM pg_statistic "
	"WHERE starelid IN (SELECT oid FROM c) "
	"UNION ALL SELECT concat_ws(' ', 'e', classid, objid, objsubid, refobjid, refobjsubid) "
	"FROM pg_depend WHERE (refclassid = 'pg_class'::regclass AND refobjid IN (SELECT oid FROM c) "
	"OR refclassid = 'pg_namespace'::regclass AND refobjid = (SELECT oid FROM s)) AND "
	"NOT (classid = 'pg_class'::regclass AND objid IN (SELECT reltoastrelid FROM c))"
	") AS all_of_it";

/* The rows that are there now: each table's copy has its name, in the schema kept_NAME. */
static const char note_sql[] =
	"DO $$ DECLARE r record; there boolean; BEGIN "
	"EXECUTE format('CREATE SCHEMA %I', 'kept_' || current_schema()); "
	"FOR r IN SELECT oid::regclass AS t, relname FROM pg_class WHERE relnamespace = "
	"current_schema()::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0 LOOP "
	"EXECUTE format('CREATE TABLE %I.%I AS TABLE %s', 'kept_' || current_schema(), r.relname, "
	"r.t); END LOOP; END $$";

static const char restore_sql[] =
	"DO $$ DECLARE r record; used text; BEGIN "
	"SET LOCAL session_replication_role = replica; "
	"SELECT string_agg(oid::regclass::text, ', ') INTO used FROM pg_class WHERE relnamespace = "
	"current_schema()::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0; "
	"IF used IS NOT NULL THEN EXECUTE 'TRUNCATE ' || used; END IF; "
	"PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence JOIN pg_class AS c ON "
	"c.oid = seqrelid WHERE relnamespace = current_schema()::regnamespace; "
	"FOR r IN SELECT oid::regclass AS kept, relname FROM pg_class WHERE relnamespace = "
	"to_regnamespace('kept_' || current_schema()) AND relkind = 'r' LOOP "
	"EXECUTE format('INSERT INTO %I OVERRIDING SYSTEM VALUE TABLE %s', r.relname, r.kept); "
	"END LOOP; END $$";

/* Who is still connected, and the publications of its tables, which a relay that streams makes. */
static const char end_sql[] =
	"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
	"backend_type = 'client backend' AND pid <> pg_backend_pid(); "
	"DO $$ DECLARE r record; BEGIN FOR r IN SELECT pubname FROM pg_publication AS p WHERE EXISTS ("
	"SELECT 1 FROM pg_publication_rel JOIN pg_class AS c ON c.oid = prrelid WHERE prpubid = p.oid "
	"AND relnamespace = current_schema()::regnamespace) LOOP "
	"EXECUTE format('DROP PUBLICATION %I', r.pubname); END LOOP; END $$";

static void forget(kept *k)
{
	char sql[100];

	(void)snprintf(sql, sizeof(sql), "DROP SCHEMA kept_%s CASCADE", k->place.name);
	assert_true(postgres_raw(k->place.url, sql, NULL, 0));
	k->recipe = NULL;
}

/* One that is free, or NULL. */
static kept *room(void)
{
	for (kept *k = all_kept; k < all_kept + KEPT; k++)
		if (!k->recipe)
			return k;
	return NULL;
}

bool postgres_again(const void *recipe, postgres_place *out)
{
	for (kept *k = all_kept; k < all_kept + KEPT; k++)
		if (k->recipe == recipe && !k->in_use) {
			*out = k->place;
			return k->in_use = true;
		}
	/* Before the test connects, since to drop a schema ends all connections. */
	for (kept *k = all_kept; k < all_kept + KEPT && !room(); k++)
		if (!k->in_use) {
			postgres_drop(&k->place);
			forget(k);
		}
	return false;
}

void postgres_note(const void *recipe, const postgres_place *place)
{
	kept *k = room();

	if (!k)
		return;
	k->place = *place;
	k->recipe = recipe;
	k->in_use = true;
	assert_true(postgres_raw(place->url, note_sql, NULL, 0));
	assert_true(
		postgres_raw(place->url, catalog_sql, k->catalog, sizeof(k->catalog)));
	assert_int_equal(strlen(k->catalog), 32);
}

static bool is_as_it_was(const kept *k)
{
	char now[64] = "";

	return postgres_raw(k->place.url, end_sql, NULL, 0) &&
	       postgres_raw(k->place.url, catalog_sql, now, sizeof(now)) &&
	       strcmp(now, k->catalog) == 0 &&
	       postgres_raw(k->place.url, restore_sql, NULL, 0);
}

void postgres_leave_place(const postgres_place *place)
{
	for (kept *k = all_kept; k < all_kept + KEPT; k++)
		if (k->in_use && strcmp(k->place.name, place->name) == 0) {
			k->in_use = false;
			if (is_as_it_was(k))
				return;
			forget(k);
		}
	postgres_drop(place);
}
