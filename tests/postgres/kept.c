/*
 * Schemas that are used again.  To make the tables of a test takes a server longer than most tests
 * run on them: a test whose schema is as it was made leaves it, with its first rows, to the next
 * that wants the same.
 */
#include "postgres/server.h"

#include "wherry_test.h"

/* What was kept, and of whom; in_use: postgres_here is it. */
static struct {
	postgres_place place;
	const void *recipe;
	char catalog[64];
	bool noted, in_use;
} kept;

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

static void forget(void)
{
	char sql[100];

	if (!kept.noted)
		return;
	kept.noted = false;
	(void)snprintf(sql, sizeof(sql), "DROP SCHEMA kept_%s CASCADE", kept.place.name);
	assert_true(postgres_raw(kept.place.url, sql, NULL, 0));
}

bool postgres_enter_again(const void *recipe, char *url, size_t cap)
{
	if (kept.noted && kept.recipe != recipe) {
		postgres_drop(&kept.place);
		forget();
	}
	if (!kept.noted)
		return false;
	postgres_here = kept.place;
	kept.in_use = true;
	(void)snprintf(url, cap, "%s", postgres_here.url);
	return true;
}

void postgres_note(const void *recipe)
{
	if (kept.noted)
		return;
	kept.place = postgres_here;
	kept.recipe = recipe;
	assert_true(postgres_raw(postgres_here.url, note_sql, NULL, 0));
	assert_true(postgres_raw(postgres_here.url, catalog_sql, kept.catalog,
				 sizeof(kept.catalog)));
	assert_int_equal(strlen(kept.catalog), 32);
	kept.noted = kept.in_use = true;
}

bool postgres_leave_again(void)
{
	char now[64] = "";

	if (!kept.in_use)
		return false;
	kept.in_use = false;
	assert_string_equal(postgres_here.name, kept.place.name);
	assert_true(postgres_raw(kept.place.url, end_sql, NULL, 0));
	if (postgres_raw(kept.place.url, catalog_sql, now, sizeof(now)) &&
	    strcmp(now, kept.catalog) == 0 &&
	    postgres_raw(kept.place.url, restore_sql, NULL, 0))
		return true;
	forget();
	return false;
}
