/*
 * Destinations of the application (wherry_publisher_driver), wrapped in the table that
 * the relay calls.  Their results are checked, and a mistake becomes an error that names
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"
#include "publish/parts.h"

/* Most receipts fetched in one call. */
enum { RECEIPTS = 32 };

typedef struct custom {
	wherry_publisher base;
	wh_publisher_driver table; /* Without the functions that the driver lacks. */
	const wherry_publisher_driver *driver;
	void *state;
	size_t n_taken; /* Messages in flight. */
} custom;

static custom *of(wherry_publisher *pub)
{
	return (custom *)pub;
}

/* ---- registering ---- */

static bool scheme_is_fine(const char *scheme)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
	static const char all[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";

	return scheme && strspn(scheme, letters) > 0 && !scheme[strspn(scheme, all)] &&
	       strlen(scheme) < 32;
}

static wherry_code check_table(const wherry_publisher_driver *driver, wherry_error *err)
{
	const char *missing = NULL;

	if (driver->version != WHERRY_PUBLISHER_VERSION)
		return wh_fail(
			err, WHERRY_UNSUPPORTED,
			"a destination is made for version %u of its table, and this "
			"library has version %d: set WHERRY_PUBLISHER_VERSION, or "
			"compile it again",
			driver->version, WHERRY_PUBLISHER_VERSION);
	if (!scheme_is_fine(driver->scheme))
		return wh_fail(err, WHERRY_INVALID,
			       "'%.40s' cannot be the scheme of a URL: write only a "
			       "to z, digits, '+', '-' and '.'",
			       driver->scheme ? driver->scheme : "");
	missing = !driver->open      ? "open"
		  : !driver->close   ? "close"
		  : !driver->submit  ? "submit"
		  : !driver->collect ? "collect"
				     : NULL;
	if (missing)
		return wh_fail(err, WHERRY_INVALID,
			       "the destination '%s:' has no function %s()",
			       driver->scheme, missing);
	if (driver->capabilities & ~WHERRY_PUBLISHER_ORDERED)
		return wh_fail(err, WHERRY_INVALID,
			       "the destination '%s:' has capabilities that do not exist",
			       driver->scheme);
	return WHERRY_OK;
}

static wherry_code add_settings(wherry_config *config,
				const wherry_publisher_driver *driver, wherry_error *err)
{
	size_t len = strlen(driver->scheme);
	wherry_code code = WHERRY_OK;

	for (const wherry_setting *row = driver->settings;
	     code == WHERRY_OK && row && row->key; row++) {
		if (strncmp(row->key, driver->scheme, len) != 0 || row->key[len] != '.')
			code = wh_fail(err, WHERRY_INVALID,
				       "the setting '%.60s' must begin with '%s.'",
				       row->key, driver->scheme);
		else
			code = wh_config_add_setting(config, row, err);
	}
	return code;
}

wherry_code wherry_publisher_register(wherry_config *config,
				      const wherry_publisher_driver *driver,
				      wherry_error *err)
{
	wh_error_clear(err);
	size_t n_settings;
	wherry_code code;

	if (!config || !driver)
		return wh_fail(err, WHERRY_INVALID,
			       "a destination needs a set of settings and a table");
	code = check_table(driver, err);
	if (code != WHERRY_OK)
		return code;
	if (wh_custom_find(config, wh_view_of(driver->scheme)) ||
	    wh_publisher_has(wh_view_of(driver->scheme)))
		return wh_fail(err, WHERRY_DUPLICATE,
			       "there is a destination '%s:' already", driver->scheme);
	n_settings = wh_config_count_added(config);
	code = add_settings(config, driver, err);
	if (code == WHERRY_OK)
		code = wh_config_add_publisher(config, driver, err);
	if (code != WHERRY_OK)
		wh_config_remove_added(config, n_settings);
	return code;
}

const wherry_publisher_driver *wh_custom_find(const wherry_config *config, wh_view scheme)
{
	const wherry_publisher_driver *driver;

	for (size_t i = 0; (driver = wh_config_publisher(config, i)); i++)
		if (wh_view_eq(scheme, wh_view_of(driver->scheme)))
			return driver;
	return NULL;
}

/* ---- mistakes ---- */

/* The error to return for a code from the driver, which may have left *err unset. */
static wherry_code failed(const custom *c, wherry_code code, wherry_error *err)
{
	if (code > WHERRY_OK && code < WHERRY_CODE_COUNT) {
		if (err && err->code != code)
			return wh_fail(err, code, "%s: %s", c->driver->scheme,
				       wherry_code_text(code));
		return code;
	}
	return wh_fail(err, WHERRY_INVALID,
		       "the destination '%s:' returned %d, which is not a wherry_code",
		       c->driver->scheme, (int)code);
}

static wherry_code mistake(const custom *c, const char *what, wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID,
		       "the destination '%s:' %s: this is a mistake "
		       "of its driver",
		       c->driver->scheme, what);
}

/* ---- the table ---- */

static void custom_close(wherry_publisher *pub)
{
	custom *c = of(pub);

	c->driver->close(c->state);
	free(c);
}

static wherry_code custom_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				 size_t n, size_t *out_taken, wherry_error *err)
{
	custom *c = of(pub);
	size_t taken = 0;
	wherry_code code = c->driver->submit(c->state, msgs, n, &taken, err);

	if (taken > n) {
		c->n_taken += n;
		*out_taken = n;
		return mistake(c, "took more messages than it was offered", err);
	}
	c->n_taken += taken;
	*out_taken = taken;
	return code == WHERRY_OK ? code : failed(c, code, err);
}

static wherry_code take_receipts(custom *c, const wherry_receipt *from, size_t n,
				 wh_receipt *out, wherry_error *err)
{
	if (n > c->n_taken)
		return mistake(c, "gave more receipts than it took messages", err);
	c->n_taken -= n;
	for (size_t i = 0; i < n; i++) {
		if (!from[i].message || from[i].verdict < WHERRY_DELIVERED ||
		    from[i].verdict > WHERRY_UNKNOWN)
			return mistake(c, "gave a receipt without message or verdict",
				       err);
		wh_receipt_fill(&out[i], from[i].message, from[i].verdict,
				from[i].verdict == WHERRY_DELIVERED ? NULL
				: *from[i].reason                   ? from[i].reason
						  : "no reason was given");
		if (from[i].retry_after_us > 0)
			out[i].retry_after_us = from[i].retry_after_us;
	}
	return WHERRY_OK;
}

static wherry_code custom_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				  size_t *out_n, wherry_error *err)
{
	custom *c = of(pub);
	wherry_receipt some[RECEIPTS];
	size_t n = 0;
	wherry_code code;

	if (cap > RECEIPTS)
		cap = RECEIPTS;
	memset(some, 0, cap * sizeof(*some));
	code = c->driver->collect(c->state, some, cap, &n, err);
	if (code != WHERRY_OK)
		return failed(c, code, err);
	if (n > cap)
		return mistake(c, "gave more receipts than there was room for", err);
	for (size_t i = 0; i < n; i++)
		some[i].reason[sizeof(some[i].reason) - 1] = 0;
	code = take_receipts(c, some, n, out, err);
	if (code == WHERRY_OK)
		*out_n = n;
	return code;
}

static void custom_drop(wherry_publisher *pub)
{
	custom *c = of(pub);

	c->driver->drop(c->state);
	c->n_taken = 0;
}

static void custom_cancel(wherry_publisher *pub)
{
	of(pub)->driver->cancel(of(pub)->state);
}

static int custom_fd(wherry_publisher *pub, short *out_events)
{
	return of(pub)->driver->fd(of(pub)->state, out_events);
}

static int64_t custom_deadline(wherry_publisher *pub)
{
	return of(pub)->driver->deadline_us(of(pub)->state);
}

wherry_code wh_custom_check(const wherry_publisher_driver *driver, const char *rest,
			    const wherry_config *config, wherry_error *err)
{
	return driver->check ? driver->check(rest, config, err) : WHERRY_OK;
}

wherry_code wh_custom_open(const wherry_publisher_driver *driver, const char *rest,
			   const wherry_config *config, wherry_publisher **out,
			   wherry_error *err)
{
	custom *c = calloc(1, sizeof(*c));
	wherry_code code;

	if (!c)
		return wh_oom(err);
	c->driver = driver;
	c->base.driver = &c->table;
	c->table = (wh_publisher_driver){
		.scheme = driver->scheme,
		.caps = driver->capabilities & WHERRY_PUBLISHER_ORDERED ? WH_PUB_ORDERED
									: 0,
		.close = custom_close,
		.submit = custom_submit,
		.collect = custom_collect,
		.drop = driver->drop ? custom_drop : NULL,
		.cancel = driver->cancel ? custom_cancel : NULL,
		.fd = driver->fd ? custom_fd : NULL,
		.deadline = driver->deadline_us ? custom_deadline : NULL,
	};
	code = driver->open(rest, config, &c->state, err);
	if (code == WHERRY_OK) {
		*out = &c->base;
		return WHERRY_OK;
	}
	code = failed(c, code, err);
	free(c);
	return code;
}
