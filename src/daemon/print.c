/*
 * Prints a plan as YAML that can be read again, and the sample file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/url.h"
#include "daemon/plan.h"
#include "publish/driver.h"

enum { COLUMNS = 78 };

/* Write one value, in quotes unless it is plain. */
static void put_scalar(wh_buf *out, const char *text)
{
	bool plain = *text && strspn(text, "abcdefghijklmnopqrstuvwxyz"
					   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/") ==
				      strlen(text);

	if (plain && *text != '-')
		wh_buf_puts(out, text);
	else
		wh_buf_json(out, text, strlen(text));
}

static void put_url(wh_buf *out, const char *key, const char *raw)
{
	char masked[1000];

	wh_url_mask(raw, masked, sizeof(masked));
	wh_buf_printf(out, "    %s: ", key);
	put_scalar(out, masked);
	wh_buf_putc(out, '\n');
}

/* Write text as comment lines. */
static void put_comment(wh_buf *out, const char *indent, const char *text)
{
	size_t at = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (!at || at + n + 1 > COLUMNS) {
			wh_buf_printf(out, "%s%s#", at ? "\n" : "", indent);
			at = strlen(indent) + 1;
		}
		wh_buf_putc(out, ' ');
		wh_buf_put(out, text, n);
		at += n + 1;
		text += n + (text[n] != 0);
	}
	wh_buf_putc(out, '\n');
}

typedef void (*put_fn)(wh_buf *out, const char *indent, const char *name, size_t which,
		       const void *ctx);

/* Visit the settings in the order of a plan: first the relay's, then each group. */
static void each_setting(wh_buf *out, put_fn put, const void *ctx)
{
	const wherry_setting *table = wherry_config_table();

	for (int round = 0; round < 2; round++)
		for (size_t i = 0; table[i].key; i++) {
			size_t n = strcspn(table[i].key, ".");
			bool relays = strncmp(table[i].key, "relay.", 6) == 0;

			if (!wh_plan_has(table[i].key) || relays != (round == 0))
				continue;
			if (!relays &&
			    (!i || strncmp(table[i].key, table[i - 1].key, n + 1) != 0))
				wh_buf_printf(out, "    %.*s:\n", (int)n, table[i].key);
			put(out, relays ? "    " : "      ", table[i].key + n + 1, i,
			    ctx);
		}
}

static void put_effective(wh_buf *out, const char *indent, const char *name, size_t which,
			  const void *ctx)
{
	const wherry_setting *s = &wherry_config_table()[which];
	const wh_plan_relay *relay = ctx;
	char masked[1000], standard[WH_STANDARD_LEN];

	wh_buf_printf(out, "%s%s%s: ", indent, relay->raw[which] ? "" : "# ", name);
	if (which == WH_RELAY_DEAD_LETTERS && relay->raw[which])
		wh_url_mask(relay->raw[which], masked, sizeof(masked));
	else if (relay->raw[which])
		(void)snprintf(masked, sizeof(masked), "%s",
			       wh_shown(s->key, relay->raw[which]));
	else
		(void)snprintf(masked, sizeof(masked), "%s",
			       wh_publisher_standard(relay->to.value, relay->config,
						     (int)which, standard)
				       ? standard
				       : s->standard);
	put_scalar(out, masked);
	wh_buf_putc(out, '\n');
}

/* ---- entries of cron ---- */

static void put_text(wh_buf *out, const char *indent, const char *key, const char *text)
{
	wh_buf_printf(out, "%s%s: ", indent, key);
	put_scalar(out, text);
	wh_buf_putc(out, '\n');
}

static void put_target(wh_buf *out, const wh_plan_cron *entry)
{
	static const char deep[] = "      ";

	wh_buf_printf(out, "    %s:\n", wh_tick_to_name(entry->to));
	for (int i = 0; i < WH_TICK_FIELDS; i++) {
		const char *raw = entry->field[i].raw;
		const char *value = wh_plan_cron_field(entry, (wh_tick_field)i);

		if (raw || value)
			put_text(out, raw ? deep : "      # ",
				 wh_tick_field_name((wh_tick_field)i), raw ? raw : value);
	}
	if (entry->n_headers)
		wh_buf_puts(out, "      headers:\n");
	for (size_t i = 0; i < entry->n_headers; i++) {
		const wh_plan_header *header = &entry->headers[i];

		wh_buf_puts(out, "        ");
		put_scalar(out, header->name);
		put_text(out, "", "", wh_shown(header->name, header->value.raw));
	}
}

/* Write the settings of an entry's connection. */
static void put_db(wh_buf *out, const wh_plan_cron *entry)
{
	const wherry_setting *table = wherry_config_table();

	wh_buf_puts(out, "    db:\n");
	for (size_t i = 0; table[i].key; i++)
		if (strncmp(table[i].key, "db.", 3) == 0 && wh_plan_has(table[i].key))
			put_text(out, entry->raw[i] ? "      " : "      # ",
				 table[i].key + 3,
				 entry->raw[i] ? entry->raw[i] : table[i].standard);
}

static void put_crons(const wh_plan *plan, wh_buf *out)
{
	if (plan->n_crons)
		wh_buf_puts(out, "cron:\n");
	for (size_t i = 0; i < plan->n_crons; i++) {
		const wh_plan_cron *entry = &plan->crons[i];

		wh_buf_printf(out, "  - name: %s\n", entry->name);
		put_url(out, "database", entry->database.raw);
		put_text(out, "    ", "at", entry->at.raw);
		put_text(out, entry->zone.raw ? "    " : "    # ", "zone",
			 entry->zone.raw ? entry->zone.raw : "UTC");
		put_text(out, "    ", "catch_up", wh_catch_up_name(entry->catch_up));
		put_text(out, entry->table.raw ? "    " : "    # ", "table",
			 entry->table.raw ? entry->table.raw : "cron");
		put_target(out, entry);
		put_db(out, entry);
	}
}

void wh_plan_print(const wh_plan *plan, wh_buf *out)
{
	if (plan->listen.raw) {
		wh_buf_puts(out, "http:\n  listen: ");
		put_scalar(out, plan->listen.raw);
		wh_buf_putc(out, '\n');
	}
	if (plan->token.raw) {
		wh_buf_puts(out, "  token: ");
		put_scalar(out, wh_shown("token", plan->token.raw));
		wh_buf_putc(out, '\n');
	}
	if (plan->hosts.raw) {
		wh_buf_puts(out, "  hosts: ");
		put_scalar(out, plan->hosts.raw);
		wh_buf_putc(out, '\n');
	}
	wh_buf_printf(out, "log:\n  format: %s\n  level: %s\n",
		      plan->log_json ? "json" : "text",
		      wh_log_level_name(plan->log_level));
	if (plan->server_connections)
		wh_buf_printf(out, "server_connections: %lld\n",
			      (long long)plan->server_connections);
	if (plan->n_relays)
		wh_buf_puts(out, "relays:\n");
	for (size_t i = 0; i < plan->n_relays; i++) {
		const wh_plan_relay *relay = &plan->relays[i];

		wh_buf_printf(out, "  - name: %s\n", relay->name);
		put_url(out, "from", relay->from.raw);
		put_url(out, "to", relay->to.raw);
		if (relay->match.raw) {
			put_text(out, "    ", "match", relay->match.raw);
			if (relay->databases.raw)
				put_text(out, "    ", "databases", relay->databases.raw);
			wh_buf_printf(out, "    %sconnections: %lld\n",
				      relay->connections ? "" : "# ",
				      relay->connections
					      ? (long long)relay->connections
					      : (long long)WH_PLAN_CONNECTIONS);
		}
		each_setting(out, put_effective, relay);
	}
	put_crons(plan, out);
}

static void put_sample(wh_buf *out, const char *indent, const char *name, size_t which,
		       const void *ctx)
{
	const wherry_setting *s = &wherry_config_table()[which];

	(void)ctx;
	put_comment(out, indent, s->help);
	if (*s->range)
		wh_buf_printf(out, "%s# (%s)\n", indent, s->range);
	wh_buf_printf(out, "%s# %s: ", indent, name);
	put_scalar(out, s->standard);
	wh_buf_putc(out, '\n');
}

void wh_plan_sample(wh_buf *out)
{
	wh_buf_puts(
		out,
		"# What `wherry run` does.  `wherry check` says whether this file can be\n"
		"# used, `wherry config` what it comes to.  In any value ${env:NAME} and\n"
		"# ${file:PATH} stand for what is found there.  The value behind a # is the\n"
		"# default.\n"
		"\n"
		"http:\n"
		"  # /healthz, /readyz and /metrics; beyond 127.0.0.1 only with a token.\n"
		"  listen: 127.0.0.1:9464\n"
		"  # 16 characters or more: openssl rand -hex 32\n"
		"  # token: ${credential:secret_http-token}\n"
		"  # Names that clients may ask for, in addition to addresses and localhost.\n"
		"  # hosts: wherry.example.com, wherry\n"
		"\n"
		"log:\n"
		"  # text (key=value) or json, one event a line on standard error.\n"
		"  format: text\n"
		"  # error, warn, info or debug; a relay may have its own log.level.\n"
		"  level: info\n"
		"\n"
		"# The most connections of relays with match to one server.\n"
		"# server_connections: 40\n"
		"\n"
		"# Settings for all relays, as below.\n"
		"# defaults:\n"
		"#   retry: {attempts: 10}\n"
		"\n"
		"relays:\n"
		"  - name: orders\n"
		"    # The database.  A password is found in ~/.pgpass, or stands here as\n"
		"    # postgres://shop:${file:/etc/wherry/password}@db/shop\n"
		"    from: sqlite:/var/lib/wherry/shop.db\n"
		"    # Where messages go.\n"
		"    to: file:/var/lib/wherry/orders.ndjson\n"
		"    # On PostgreSQL, the outboxes of all schemas of a pattern; on SQLite, of the\n"
		"    # files of a folder; and how many of them are relayed at once.\n"
		"    # match: tenant_*\n"
		"    # Or the outboxes of databases of the server, which a query lists.\n"
		"    # databases: SELECT name FROM tenants\n"
		"    # connections: 4\n");
	each_setting(out, put_sample, NULL);
	wh_buf_puts(
		out,
		"\n"
		"# Messages at certain times.  `wherry create --kind cron` with the URL makes the\n"
		"# table that remembers which were written.\n"
		"# cron:\n"
		"#   - name: nightly\n"
		"#     # A URL, or the name of a relay, which stands for its database.\n"
		"#     database: orders\n"
		"#     # A crontab expression, @daily, '12:00, 18:00' or '@every 15m'.\n"
		"#     at: '30 2 * * *'\n"
		"#     # A zone of the tz database; none for a period.\n"
		"#     zone: UTC\n"
		"#     # Of the times that were missed: none, last or all.\n"
		"#     catch_up: none\n"
		"#     # The table that remembers.\n"
		"#     table: cron\n"
		"#     # Where the message goes: this, or\n"
		"#     # queue: {name: jobs, headers: {}, body: '{}'}, or\n"
		"#     # delayed: {name: jobs, table: delayed, type: bytes, body: '{}'}\n"
		"#     outbox:\n"
		"#       topic: reports\n"
		"#       # key: reports\n"
		"#       # headers: {kind: nightly}\n"
		"#       body: '{}'\n"
		"#       table: outbox\n"
		"#     # Settings of the connection, as a relay has them.\n"
		"#     # db: {busy_timeout: 5s}\n");
}
