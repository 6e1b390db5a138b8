/*
 * A plan as YAML that can be read again, and the sample file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/url.h"
#include "daemon/plan.h"
#include "publish/driver.h"

enum { COLUMNS = 78 };

/* In quotes: whatever it has in it, it stays one value. */
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

/* Text in comment lines. */
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

/* The settings as a plan has them: the relay's, then each group. */
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
	wh_buf_printf(out, "log:\n  format: %s\n  level: %s\nrelays:\n",
		      plan->log_json ? "json" : "text",
		      wh_log_level_name(plan->log_level));
	for (size_t i = 0; i < plan->n_relays; i++) {
		const wh_plan_relay *relay = &plan->relays[i];

		wh_buf_printf(out, "  - name: %s\n", relay->name);
		put_url(out, "from", relay->from.raw);
		put_url(out, "to", relay->to.raw);
		each_setting(out, put_effective, relay);
	}
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
		"# ${file:PATH} stand for what is found there.  What is behind a # is the\n"
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
		"    to: file:/var/lib/wherry/orders.ndjson\n");
	each_setting(out, put_sample, NULL);
}
