#include "publish/driver.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/text.h"
#include "base/url.h"
#include "config/settings.h"
#include "publish/bodies/bodies.h"
#include "publish/format/format.h"
#include "publish/readback.h"

static const wh_publisher_driver *const drivers[] = {
	&wh_publisher_stdout,         &wh_publisher_file,
	&wh_publisher_exec,           &wh_publisher_memory,
	&wh_publisher_null,           &wh_publisher_queue_sqlite,
#ifdef WHERRY_POSTGRES
	&wh_publisher_queue_postgres, &wh_publisher_queue_postgresql,
#endif
};

enum { DRIVER_COUNT = sizeof(drivers) / sizeof(drivers[0]) };

/* The i-th built-in driver; NULL: i is past the last one. */
static const wh_publisher_driver *driver_at(size_t i)
{
	return i < DRIVER_COUNT ? drivers[i] : wh_publishers_linked[i - DRIVER_COUNT];
}

static const wh_publisher_driver *built_in(wh_view scheme)
{
	const wh_publisher_driver *driver;

	for (size_t i = 0; (driver = driver_at(i)); i++)
		if (wh_view_eq(scheme, wh_view_of(driver->scheme)))
			return driver;
	return NULL;
}

bool wh_publisher_has(wh_view scheme)
{
	return built_in(scheme);
}

/* The i-th scheme: first built-in destinations, then those registered in the settings. */
static const char *scheme_at(const void *ctx, size_t i)
{
	const wherry_publisher_driver *own;

	for (size_t n = 0; driver_at(n); n++)
		if (i-- == 0)
			return driver_at(n)->scheme;
	own = wh_config_publisher(ctx, i);
	return own ? own->scheme : NULL;
}

static wherry_code unknown_scheme(wh_view scheme, const wherry_config *config,
				  wherry_error *err)
{
	wh_buf known = WH_BUF_INIT(256);
	char name[64];
	const char *near;
	wherry_code code;

	(void)snprintf(name, sizeof(name), "%.*s",
		       (int)(scheme.len < 60 ? scheme.len : 60), scheme.ptr);
	near = wh_nearest(name, scheme_at, config);
	for (size_t i = 0; scheme_at(config, i); i++)
		wh_buf_printf(&known, "%s%s:", i ? ", " : "", scheme_at(config, i));
	code = wh_fail(err, WHERRY_INVALID,
		       "unknown destination '%s:'%s%s%s; known are %s", name,
		       near ? "; did you mean '" : "", near ? near : "",
		       near ? ":'?" : "", wh_buf_str(&known));
	wh_buf_clear(&known);
	return code;
}

/* ---- the table ---- */

/* The one type to which pointers to all these functions can be cast. */
typedef void (*any_fn)(void);
#define FN(member) ((any_fn)driver->member)

wherry_code wh_publisher_driver_check(const wh_publisher_driver *driver,
				      wherry_error *err)
{
	const struct {
		const char *name;
		any_fn fn;
	} needed[] = {
		{"close", FN(close)},
		{"submit", FN(submit)},
		{"collect", FN(collect)},
		/* A publisher with a descriptor needs a deadline; one that cancels can drop. */
		{"deadline", driver->fd ? FN(deadline) : FN(close)},
		{"drop", driver->cancel ? FN(drop) : FN(close)},
		{"numbers", driver->watch ? FN(numbers) : FN(close)}};

	if (!driver->scheme)
		return wh_fail(err, WHERRY_INVALID, "a publisher has no scheme");
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!needed[i].fn)
			return wh_fail(err, WHERRY_INVALID,
				       "the publisher '%s:' lacks %s", driver->scheme,
				       needed[i].name);
	return WHERRY_OK;
}

/* ---- by URL ---- */

/* The publisher that a URL names: either driver or own is set. */
typedef struct named {
	wh_url url;
	const wh_publisher_driver *driver;
	const wherry_publisher_driver *own; /* Registered by the application. */
} named;

static wherry_code find(const char *url, const wherry_config *config, named *out,
			wherry_error *err)
{
	wherry_code code = wh_url_parse(url, &out->url, err);

	if (code != WHERRY_OK)
		return *url == '/' ? wh_fail(err, code,
					     "'%.80s' is a path and not a URL: write "
					     "file:%.80s to append to that file",
					     url, url)
				   : code;
	out->driver = built_in(out->url.scheme);
	out->own = out->driver ? NULL : wh_custom_find(config, out->url.scheme);
	if (out->driver)
		return wh_publisher_driver_check(out->driver, err);
	return out->own ? WHERRY_OK : unknown_scheme(out->url.scheme, config, err);
}

wherry_code wh_publisher_known(const char *url, wherry_error *err)
{
	named to;

	return find(url, NULL, &to, err);
}

wherry_code wh_publisher_check(const char *url, const wherry_config *config,
			       wherry_error *err)
{
	named to;
	wherry_code code = find(url, config, &to, err);

	if (code != WHERRY_OK)
		return code;
	code = wh_config_check_needs(config, err);
	if (code == WHERRY_OK)
		code = wh_format_check(config, err);
	if (code != WHERRY_OK)
		return code;
	if (to.own)
		code = wh_custom_check(to.own, to.url.rest.ptr, config, err);
	else if (to.driver->check)
		code = to.driver->check(to.url.rest.ptr, config, err);
	if (code == WHERRY_OK)
		code = wh_bodies_check(config, err);
	for (size_t i = 0; code == WHERRY_OK && wh_publisher_wrappers_linked[i]; i++)
		code = wh_publisher_wrappers_linked[i]->check(config, err);
	return code;
}

bool wh_publisher_prefers(const wh_publisher_driver *driver, int which, int64_t window,
			  int64_t *out)
{
	const wh_persistence *asked = driver->persistence;

	if (which == WH_RELAY_WINDOW && driver->window)
		*out = driver->window;
	else if (which == WH_RELAY_WINDOW_BYTES && driver->window_bytes)
		*out = driver->window_bytes;
	else if (which == WH_RELAY_ACK_DELAY && driver->ack_delay_us &&
		 window >= WH_LARGE_WINDOW)
		*out = driver->ack_delay_us;
	else if (which == WH_RETRY_ATTEMPTS && asked)
		*out = asked->attempts;
	else if (which == WH_RETRY_BASE && asked)
		*out = asked->base_us;
	else if (which == WH_RETRY_CAP && asked)
		*out = asked->cap_us;
	else
		return false;
	return true;
}

bool wh_publisher_standard(const char *url, const wherry_config *config, int which,
			   char out[WH_STANDARD_LEN])
{
	int64_t window = config ? wh_config_int(config, WH_RELAY_WINDOW) : INT64_MAX;
	int64_t value;
	named to;

	if (find(url, config, &to, NULL) != WHERRY_OK || !to.driver ||
	    !wh_publisher_prefers(to.driver, which, window, &value))
		return false;
	if (which == WH_RETRY_ATTEMPTS || which == WH_RELAY_WINDOW)
		(void)snprintf(out, WH_STANDARD_LEN, "%" PRId64, value);
	else if (which == WH_RELAY_WINDOW_BYTES)
		(void)snprintf(out, WH_STANDARD_LEN, "%" PRId64 "MB", value >> 20);
	else
		wh_duration_print(value, out, WH_STANDARD_LEN);
	return true;
}

void wh_publisher_warn(const char *url, const wherry_config *config, wh_buf *out)
{
	named to;

	if (find(url, config, &to, NULL) != WHERRY_OK)
		return;
	if (to.driver && to.driver->warn)
		to.driver->warn(to.url.rest.ptr, config, out);
	wh_bodies_warn(config, out);
}

void wh_publisher_warn_settings(const wherry_config *config, wh_buf *out)
{
	for (size_t i = 0; wh_publisher_wrappers_linked[i]; i++)
		wh_publisher_wrappers_linked[i]->warn(config, out);
}

/* Open the destination, with a body store if the settings name one. */
static wherry_code open_plain(const char *url, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err)
{
	named to;
	wherry_code code = find(url, config, &to, err);

	if (code != WHERRY_OK)
		return code;
	if (to.own)
		code = wh_custom_open(to.own, to.url.rest.ptr, config, out, err);
	else
		code = to.driver->open(to.url.rest.ptr, config, env, out, err);
	return code == WHERRY_OK ? wh_bodies_wrap(config, env, out, err) : code;
}

static wherry_code open_wrapped(const char *url, bool formats,
				const wherry_config *config, const wh_env *env,
				wherry_publisher **out, wherry_error *err)
{
	wherry_publisher *pub = NULL;
	wherry_code code = wh_config_check_needs(config, err);

	if (code == WHERRY_OK)
		code = open_plain(url, config, env, &pub, err);
	if (code == WHERRY_OK && formats)
		code = wh_format_wrap(config, &pub, err);
	for (size_t i = 0; code == WHERRY_OK && wh_publisher_wrappers_linked[i]; i++)
		code = wh_publisher_wrappers_linked[i]->wrap(url, config, env, &pub, err);
	if (code == WHERRY_OK)
		*out = pub;
	return code;
}

wherry_code wh_publisher_open_raw(const char *url, const wherry_config *config,
				  const wh_env *env, wherry_publisher **out,
				  wherry_error *err)
{
	return open_wrapped(url, false, config, env, out, err);
}

wherry_code wh_publisher_open(const char *url, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err)
{
	return open_wrapped(url, true, config, env, out, err);
}

void wh_publishers_end(void)
{
	for (size_t i = 0; wh_publisher_wrappers_linked[i]; i++)
		wh_publisher_wrappers_linked[i]->end();
}

wherry_code wherry_publisher_open(const char *url, const wherry_config *config,
				  wherry_publisher **out, wherry_error *err)
{
	wh_error_clear(err);
	if (!url || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "a publisher needs a URL and a place to put it");
	return wh_publisher_open(url, config, &wh_env_system, out, err);
}

void wherry_publisher_close(wherry_publisher *publisher)
{
	if (publisher)
		publisher->driver->close(publisher);
}

wherry_code wh_publisher_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				size_t n, size_t *out_taken, wherry_error *err)
{
	wherry_code code;

	*out_taken = 0;
	if (!n)
		return WHERRY_OK;
	code = pub->driver->submit(pub, msgs, n, out_taken, err);
	assert(*out_taken <= n);
	return code;
}

wherry_code wh_publisher_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				 size_t *out_n, wherry_error *err)
{
	wherry_code code;

	*out_n = 0;
	if (!cap)
		return WHERRY_OK;
	code = pub->driver->collect(pub, out, cap, out_n, err);
	assert(*out_n <= cap);
	return code;
}

void wh_publisher_drop(wherry_publisher *pub)
{
	if (pub->driver->drop)
		pub->driver->drop(pub);
}

void wh_publisher_cancel(wherry_publisher *pub)
{
	if (pub->driver->cancel)
		pub->driver->cancel(pub);
}

void wh_publisher_grant(wherry_publisher *pub, const wh_grant *grant)
{
	if (pub->driver->grant)
		pub->driver->grant(pub, grant);
}

int wh_publisher_fd(wherry_publisher *pub, short *out_events)
{
	*out_events = 0;
	return pub->driver->fd ? pub->driver->fd(pub, out_events) : -1;
}

int64_t wh_publisher_deadline(wherry_publisher *pub)
{
	return pub->driver->deadline ? pub->driver->deadline(pub) : WH_NEVER;
}

const char *wh_publisher_trouble(wherry_publisher *pub)
{
	return pub->driver->trouble ? pub->driver->trouble(pub) : NULL;
}

const char *wh_publisher_notice(wherry_publisher *pub)
{
	return pub->driver->notice ? pub->driver->notice(pub) : NULL;
}

void wh_publisher_watch(wherry_publisher *pub)
{
	if (pub->driver->watch)
		pub->driver->watch(pub);
}

size_t wh_publisher_numbers(const wherry_publisher *pub, wh_number *out)
{
	return pub->driver->numbers ? pub->driver->numbers(pub, out) : 0;
}

/* ---- reading back: readback.h ---- */

static wherry_code cannot(const named *to, wherry_error *err)
{
	const char *why = to->driver ? to->driver->no_readback : NULL;

	return wh_fail(err, WHERRY_UNSUPPORTED,
		       "%.*s: cannot be read back: %s; if its receiver has an inbox, "
		       "--inbox URL#inbox compares with that",
		       (int)to->url.scheme.len, to->url.scheme.ptr,
		       why ? why : "it does not keep messages that could be asked for");
}

wherry_code wh_readback_can(const char *url, const wherry_config *config,
			    wherry_error *err)
{
	named to;
	wherry_code code = find(url, config, &to, err);

	if (code != WHERRY_OK)
		return code;
	if (!to.driver || !to.driver->readback)
		return cannot(&to, err);
	if (wh_format_renames(config))
		return wh_fail(
			err, WHERRY_UNSUPPORTED,
			"%.*s: cannot be read back: message.topic, message.key and "
			"message.format=debezium change the names by which messages "
			"are found; if its receiver has an inbox, --inbox URL#inbox "
			"compares with that",
			(int)to.url.scheme.len, to.url.scheme.ptr);
	return wh_publisher_check(url, config, err);
}

wherry_code wh_readback_open(const char *url, const wherry_config *config,
			     const wh_readback_ask *ask, wh_readback **out,
			     wherry_error *err)
{
	named to;
	wherry_code code = wh_readback_can(url, config, err);

	if (code == WHERRY_OK)
		code = find(url, config, &to, err);
	return code == WHERRY_OK
		       ? to.driver->readback->open(to.url.rest.ptr, config, ask, out, err)
		       : code;
}

void wh_readback_close(wh_readback *back)
{
	if (back)
		back->driver->close(back);
}
