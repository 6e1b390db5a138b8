/*
 * Which store the settings name.
 */
#include <string.h>

#include "config/settings.h"
#include "publish/bodies/bodies.h"

static const wh_body_store_driver *const built_in[] = {&wh_body_store_file};

static const wh_body_store_driver *find(wh_view scheme)
{
	for (size_t i = 0; i < sizeof(built_in) / sizeof(*built_in); i++)
		if (wh_view_eq(scheme, wh_view_of(built_in[i]->scheme)))
			return built_in[i];
	for (size_t i = 0; wh_body_stores_linked[i]; i++)
		if (wh_view_eq(scheme, wh_view_of(wh_body_stores_linked[i]->scheme)))
			return wh_body_stores_linked[i];
	return NULL;
}

wherry_code wh_body_store_named(const wherry_config *config, wh_url *out,
				const wh_body_store_driver **out_driver,
				wherry_error *err)
{
	const char *url = wh_config_text(config, WH_RELAY_BODY_STORE);
	wherry_code code;

	*out_driver = NULL;
	if (!*url)
		return WHERRY_OK;
	if (*url == '/')
		return wh_fail(err, WHERRY_INVALID,
			       "relay.body_store: a folder stands behind file: write "
			       "relay.body_store=file:%.160s",
			       url);
	code = wh_url_parse(url, out, NULL);
	if (code != WHERRY_OK)
		return wh_fail(err, WHERRY_INVALID,
			       "relay.body_store: write file:/FOLDER or "
			       "s3://BUCKET/PREFIX");
	*out_driver = find(out->scheme);
	if (*out_driver)
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"relay.body_store: '%.*s:' is not a body store%s; write "
		"file:/FOLDER or s3://BUCKET/PREFIX",
		(int)(out->scheme.len < 40 ? out->scheme.len : 40), out->scheme.ptr,
		wh_view_eq(out->scheme, wh_view_of("s3"))
			? " here (the program wherry has it, if it is built with libcurl)"
			: "");
}

wherry_code wh_bodies_check(const wherry_config *config, wherry_error *err)
{
	const wh_body_store_driver *driver;
	wh_url url;
	wherry_code code = wh_body_store_named(config, &url, &driver, err);

	if (code != WHERRY_OK || !driver)
		return code;
	return driver->check(url.rest.ptr, config, err);
}

void wh_bodies_warn(const wherry_config *config, wh_buf *out)
{
	const wh_body_store_driver *driver;
	wh_url url;

	if (wh_body_store_named(config, &url, &driver, NULL) == WHERRY_OK && driver &&
	    driver->warn)
		driver->warn(url.rest.ptr, config, out);
}
