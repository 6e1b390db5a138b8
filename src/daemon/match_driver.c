/*
 * Hands what a set asks for to the driver of its places.
 */
#include "daemon/match_driver.h"

#include <fnmatch.h>

wherry_code wh_match_open(const wh_plan_relay *relay, wh_match_db **out,
			  wherry_error *err)
{
	const wh_match_driver *driver = wh_plan_in_files(relay)  ? &wh_match_files
					: relay->databases.value ? &wh_match_databases
								 : &wh_match_schemas;

	return driver->open(relay, out, err);
}

void wh_match_close(wh_match_db *m)
{
	if (m)
		m->driver->close(m);
}

const char *wh_match_table(const wh_match_db *m)
{
	return m->name.table;
}

char *wh_match_url(const wh_match_db *m, const wh_match_row *row)
{
	return m->driver->url ? m->driver->url(m, row) : NULL;
}

const char *wh_match_what(const wh_match_db *m)
{
	return m->driver->what;
}

const char *wh_match_none(const wh_match_db *m, bool any_place)
{
	return any_place ? m->driver->none_has : m->driver->none;
}

bool wh_match_exact(const wh_match_db *m)
{
	return m->driver->exact;
}

bool wh_match_stirs(const wh_match_db *m)
{
	return m->driver->stirs;
}

int64_t wh_match_hear_us(const wh_match_db *m)
{
	return m->driver->hear_us;
}

int64_t wh_match_probe_us(const wh_match_db *m)
{
	return m->driver->probe_us;
}

bool wh_match_fits(const char *pattern, const char *name)
{
	return fnmatch(pattern, name, FNM_NOESCAPE | FNM_PERIOD) == 0;
}

size_t wh_match_look_most(const wh_match_db *m)
{
	return m->driver->look_most;
}

int wh_match_fd(const wh_match_db *m)
{
	return m->driver->fd(m);
}

wherry_code wh_match_list(wh_match_db *m, wh_match_row *out, size_t most, size_t *out_n,
			  wherry_error *err)
{
	return m->driver->list(m, out, most, out_n, err);
}

wherry_code wh_match_listen(wh_match_db *m, const int64_t *keys, size_t n, bool on,
			    wherry_error *err)
{
	return m->driver->listen ? m->driver->listen(m, keys, n, on, err) : WHERRY_OK;
}

size_t wh_match_heard(wh_match_db *m, wh_heard *out, size_t most)
{
	return m->driver->heard(m, out, most);
}

wherry_code wh_match_sleep(wh_match_db *m, wh_match_row *const *rows, size_t n,
			   wherry_error *err)
{
	if (n && m->driver->sleep)
		return m->driver->sleep(m, rows, n, err);
	for (size_t i = 0; i < n; i++)
		rows[i]->lock = WH_LOCK_OURS;
	return WHERRY_OK;
}

wherry_code wh_match_wake(wh_match_db *m, wh_match_row *const *rows, size_t n,
			  wherry_error *err)
{
	return n && m->driver->wake ? m->driver->wake(m, rows, n, err) : WHERRY_OK;
}

wherry_code wh_match_look(wh_match_db *m, wh_match_row *const *rows, size_t n,
			  wherry_error *err)
{
	for (size_t i = 0; i < n; i++)
		rows[i]->trouble = WH_MATCH_FINE;
	return m->driver->look(m, rows, n, err);
}

wherry_code wh_match_take_found(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_match_row *to = ctx;
	int64_t due_ms = wh_row_int(row, 2);

	(void)err;
	to->found = (wh_match_found){
		.rows = wh_row_int(row, 1) != 0,
		.exceptions = wh_row_int(row, 3) != 0,
		.paused = wh_row_int(row, 4) != 0,
		.due_us = due_ms < 0 ? -1 : wh_us(due_ms),
		.leased_us = wh_us(wh_row_int(row, 5)),
		.ended = wh_process_look(wh_row_text(row, 6)) == WH_PROCESS_ENDED,
	};
	return WHERRY_OK;
}
