#include "transfer/queue_url.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/url.h"
#include "db/driver.h"

static wherry_code read_retention(wh_queue_url *at, wherry_error *err)
{
	char *text = NULL;
	wherry_code code = wh_url_take(at->database, "inbox_retention", &text, err);

	if (code == WHERRY_OK && text) {
		code = wh_duration_parse(text, &at->retention_us, err);
		if (code == WHERRY_OK && at->retention_us <= 0)
			code = wh_fail(err, WHERRY_INVALID, "it is not above 0");
		if (code != WHERRY_OK)
			code = wh_prefix(err, code, "inbox_retention=%.40s", text);
	}
	free(text);
	return code;
}

/* Take the name of the queue from the end of the URL. */
static wherry_code read_queue(const char *url, wh_queue_url *out, wherry_error *err)
{
	const char *name = wh_url_table(url);
	wh_table_name parts;
	wherry_code code;

	if (!name)
		return wh_fail(err, WHERRY_INVALID,
			       "the URL does not name the queue: add #NAME to it");
	code = wh_table_name_read(name, &parts, err);
	if (code == WHERRY_OK && *parts.queue)
		code = wh_fail(
			err, WHERRY_UNSUPPORTED,
			"'%.60s' is a delayed queue: relays deliver to queues, and "
			"applications offer messages to delayed queues",
			name);
	if (code == WHERRY_OK && !(out->queue = strdup(parts.table)))
		code = wh_oom(err);
	return code;
}

wherry_code wh_queue_url_read(const char *scheme, const char *rest, wh_queue_url *out,
			      wherry_error *err)
{
	static const char *const known[] = {"inbox", "inbox_retention", NULL};
	wh_buf text = WH_BUF_INIT(64 * 1024);
	wherry_code code;

	wh_buf_printf(&text, "%s:%s", scheme, rest);
	code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		code = read_queue(wh_buf_str(&text), out, err);
	if (code == WHERRY_OK && !(out->database = wh_url_database(wh_buf_str(&text))))
		code = wh_oom(err);
	if (code == WHERRY_OK)
		code = wh_url_check_parameters(out->database, known, err);
	if (code == WHERRY_OK)
		code = wh_url_take(out->database, "inbox", &out->inbox, err);
	if (code == WHERRY_OK && !out->inbox && !(out->inbox = strdup("inbox")))
		code = wh_oom(err);
	if (code == WHERRY_OK)
		code = read_retention(out, err);
	if (code == WHERRY_OK)
		code = wh_db_known(out->database, err);
	wh_buf_clear(&text);
	return code;
}

void wh_queue_url_clear(wh_queue_url *url)
{
	free(url->database);
	free(url->queue);
	free(url->inbox);
}
