#include "publish/driver.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/text.h"
#include "base/url.h"
#include "config/settings.h"

static const wh_publisher_driver *const drivers[] = {
	&wh_publisher_stdout, &wh_publisher_file, &wh_publisher_exec,
	&wh_publisher_memory, &wh_publisher_null,
};

enum { DRIVER_COUNT = sizeof(drivers) / sizeof(drivers[0]) };

/* NULL behind the last. */
static const wh_publisher_driver *driver_at(size_t i)
{
	return i < DRIVER_COUNT ? drivers[i] : wh_publishers_linked[i - DRIVER_COUNT];
}

static const char *scheme_at(const void *ctx, size_t i)
{
	const wh_publisher_driver *driver = driver_at(i);

	(void)ctx;
	return driver ? driver->scheme : NULL;
}

static wherry_code unknown_scheme(wh_view scheme, wherry_error *err)
{
	wh_buf known = WH_BUF_INIT(256);
	char name[64];
	const char *near;
	wherry_code code;

	(void)snprintf(name, sizeof(name), "%.*s",
		       (int)(scheme.len < 60 ? scheme.len : 60), scheme.ptr);
	near = wh_nearest(name, scheme_at, NULL);
	for (size_t i = 0; scheme_at(NULL, i); i++)
		wh_buf_printf(&known, "%s%s:", i ? ", " : "", scheme_at(NULL, i));
	code = wh_fail(err, WHERRY_INVALID,
		       "unknown destination '%s:'%s%s%s; known are %s", name,
		       near ? "; did you mean '" : "", near ? near : "",
		       near ? ":'?" : "", wh_buf_str(&known));
	wh_buf_clear(&known);
	return code;
}

static wherry_code find_driver(const char *url, wh_url *parts,
			       const wh_publisher_driver **out, wherry_error *err)
{
	wherry_code code = wh_url_parse(url, parts, err);

	if (code != WHERRY_OK)
		return code;
	for (size_t i = 0; (*out = driver_at(i)); i++)
		if (wh_view_eq(parts->scheme, wh_view_of((*out)->scheme)))
			return WHERRY_OK;
	return unknown_scheme(parts->scheme, err);
}

wherry_code wh_publisher_known(const char *url, wherry_error *err)
{
	const wh_publisher_driver *driver;
	wh_url parts;

	return find_driver(url, &parts, &driver, err);
}

wherry_code wh_publisher_check(const char *url, const wherry_config *config,
			       wherry_error *err)
{
	const wh_publisher_driver *driver;
	wh_url parts;
	wherry_code code = find_driver(url, &parts, &driver, err);

	if (code != WHERRY_OK || !driver->check)
		return code;
	return driver->check(parts.rest.ptr, config, err);
}

bool wh_publisher_standard(const char *url, const wherry_config *config, int which,
			   char out[WH_STANDARD_LEN])
{
	const wh_publisher_driver *driver;
	const wh_persistence *asked;
	wh_url parts;

	if (find_driver(url, &parts, &driver, NULL) != WHERRY_OK)
		return false;
	asked = driver->persistence;
	if (which == WH_RELAY_ACK_DELAY && driver->ack_delay_us &&
	    (!config || wh_config_int(config, WH_RELAY_WINDOW) >= WH_LARGE_WINDOW))
		wh_duration_print(driver->ack_delay_us, out, WH_STANDARD_LEN);
	else if (which == WH_RETRY_ATTEMPTS && asked)
		(void)snprintf(out, WH_STANDARD_LEN, "%d", (int)asked->attempts);
	else if (which == WH_RETRY_BASE && asked)
		wh_duration_print(asked->base_us, out, WH_STANDARD_LEN);
	else if (which == WH_RETRY_CAP && asked)
		wh_duration_print(asked->cap_us, out, WH_STANDARD_LEN);
	else
		return false;
	return true;
}

void wh_publisher_warn(const char *url, const wherry_config *config, wh_buf *out)
{
	const wh_publisher_driver *driver;
	wh_url parts;

	if (find_driver(url, &parts, &driver, NULL) == WHERRY_OK && driver->warn)
		driver->warn(parts.rest.ptr, config, out);
}

wherry_code wh_publisher_open(const char *url, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err)
{
	const wh_publisher_driver *driver;
	wh_url parts;
	wherry_code code = find_driver(url, &parts, &driver, err);

	return code == WHERRY_OK ? driver->open(parts.rest.ptr, config, env, out, err)
				 : code;
}

wherry_code wherry_publisher_open(const char *url, const wherry_config *config,
				  wherry_publisher **out, wherry_error *err)
{
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

void wh_publisher_watch(wherry_publisher *pub)
{
	if (pub->driver->watch)
		pub->driver->watch(pub);
}

size_t wh_publisher_numbers(const wherry_publisher *pub, wh_number *out)
{
	return pub->driver->numbers ? pub->driver->numbers(pub, out) : 0;
}
