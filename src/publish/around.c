#include "publish/around.h"

static wherry_publisher *inner_of(const wherry_publisher *pub)
{
	return ((const wh_around *)pub)->inner;
}

static void around_drop(wherry_publisher *pub)
{
	wh_publisher_drop(inner_of(pub));
}

static void around_cancel(wherry_publisher *pub)
{
	wh_publisher_cancel(inner_of(pub));
}

static size_t around_body_most(wherry_publisher *pub)
{
	wherry_publisher *inner = inner_of(pub);

	return inner->driver->body_most(inner);
}

static void around_grant(wherry_publisher *pub, const wh_grant *grant)
{
	wh_publisher_grant(inner_of(pub), grant);
}

static int around_fd(wherry_publisher *pub, short *out_events)
{
	return wh_publisher_fd(inner_of(pub), out_events);
}

static int64_t around_deadline(wherry_publisher *pub)
{
	return wh_publisher_deadline(inner_of(pub));
}

static const char *around_trouble(wherry_publisher *pub)
{
	return wh_publisher_trouble(inner_of(pub));
}

static const char *around_notice(wherry_publisher *pub)
{
	return wh_publisher_notice(inner_of(pub));
}

static void around_watch(wherry_publisher *pub)
{
	wh_publisher_watch(inner_of(pub));
}

static size_t around_numbers(const wherry_publisher *pub, wh_number *out)
{
	return wh_publisher_numbers(inner_of(pub), out);
}

void wh_around_make(wh_around *around, wherry_publisher *inner,
		    const wh_publisher_driver *own)
{
	const wh_publisher_driver *to = inner->driver;

/* The function that the publisher has itself; else one that hands on; NULL: inner has none. */
#define EITHER(name) (own->name ? own->name : to->name ? around_##name : NULL)
	around->base.driver = &around->table;
	around->inner = inner;
	around->table = (wh_publisher_driver){
		.scheme = to->scheme,
		.caps = to->caps,
		.persistence = to->persistence,
		.ack_delay_us = to->ack_delay_us,
		.window = to->window,
		.window_bytes = to->window_bytes,
		.probe_cap_us = to->probe_cap_us,
		.close = own->close,
		.submit = own->submit,
		.collect = own->collect,
		.drop = EITHER(drop),
		.cancel = EITHER(cancel),
		.body_most = EITHER(body_most),
		.grant = EITHER(grant),
		.fd = EITHER(fd),
		.deadline = EITHER(deadline),
		.trouble = EITHER(trouble),
		.notice = EITHER(notice),
		.watch = EITHER(watch),
		.numbers = EITHER(numbers),
		.binding = to->binding,
	};
#undef EITHER
}
