/*
 * A publisher that stands in front of a destination, and hands over messages in the format
 * that the settings ask for.
 */
#include "publish/format/format.h"

#include <stdlib.h>
#include <string.h>

#include "publish/around.h"
#include "publish/parts.h"

enum { CHUNK_MOST = 64 };

typedef struct format_publisher {
	wh_around around;
	wh_format format;
	wh_formed *in_flight;
	size_t n_in_flight; /* Messages that the destination took. */
	wh_formed *spare;
	/* How many messages to make at once.  One that the destination does not take is made
	 * again later. */
	size_t chunk;
	/* A message that has no such form; its receipt is due.  NULL: none.  No other is
	 * taken until then, so that none of its key overtakes it. */
	const wherry_message *refused;
	char reason[200];
} format_publisher;

static format_publisher *of(wherry_publisher *pub)
{
	return (format_publisher *)pub;
}

/* ---- messages as they are sent ---- */

static wh_formed *take_spare(format_publisher *p)
{
	wh_formed *formed = p->spare;

	if (formed) {
		p->spare = formed->next;
		return formed;
	}
	formed = malloc(sizeof(*formed));
	if (formed)
		wh_formed_init(formed);
	return formed;
}

static void give_spare(format_publisher *p, wh_formed *formed)
{
	formed->next = p->spare;
	p->spare = formed;
}

static void link_in(format_publisher *p, wh_formed *formed)
{
	formed->prev = NULL;
	formed->next = p->in_flight;
	if (formed->next)
		formed->next->prev = formed;
	p->in_flight = formed;
	p->n_in_flight++;
}

static void link_out(format_publisher *p, wh_formed *formed)
{
	if (formed->prev)
		formed->prev->next = formed->next;
	else
		p->in_flight = formed->next;
	if (formed->next)
		formed->next->prev = formed->prev;
	p->n_in_flight--;
}

static void free_list(wh_formed *formed)
{
	while (formed) {
		wh_formed *next = formed->next;

		wh_formed_clear(formed);
		free(formed);
		formed = next;
	}
}

/* ---- the table ---- */

static void format_close(wherry_publisher *pub)
{
	format_publisher *p = of(pub);

	wherry_publisher_close(p->around.inner);
	free_list(p->in_flight);
	free_list(p->spare);
	wh_format_clear(&p->format);
	free(p);
}

static void refuse(format_publisher *p, const wherry_message *msg, const char *reason)
{
	wh_receipt receipt = {0};

	/* It makes one line of valid UTF-8 of the reason. */
	wh_receipt_fill(&receipt, msg, WHERRY_REJECTED, reason);
	memcpy(p->reason, receipt.reason, sizeof(p->reason));
	p->refused = msg;
}

/* Make messages until one has no such form, which *out_bad receives. */
static wherry_code make_some(format_publisher *p, const wherry_message *const *msgs,
			     size_t n, wh_formed **out, size_t *out_n,
			     const wherry_message **out_bad, wherry_error *why)
{
	wherry_code code = WHERRY_OK;

	while (*out_n < n && code == WHERRY_OK) {
		wh_formed *formed = take_spare(p);

		if (!formed)
			return wh_oom(why);
		code = wh_format_make(&p->format, msgs[*out_n], formed, why);
		if (code == WHERRY_OK)
			out[(*out_n)++] = formed;
		else
			give_spare(p, formed);
	}
	if (code == WHERRY_INVALID || code == WHERRY_TOOBIG) {
		*out_bad = msgs[*out_n];
		code = WHERRY_OK;
	}
	return code;
}

static wherry_code hand_over(format_publisher *p, wh_formed **made, size_t n,
			     size_t *out_taken, wherry_error *err)
{
	const wherry_message *msgs[CHUNK_MOST];
	size_t taken = 0;
	wherry_code code;

	for (size_t i = 0; i < n; i++)
		msgs[i] = &made[i]->msg;
	code = wh_publisher_submit(p->around.inner, msgs, n, &taken, err);
	for (size_t i = 0; i < n; i++) {
		if (i < taken)
			link_in(p, made[i]);
		else
			give_spare(p, made[i]);
	}
	*out_taken = taken;
	return code;
}

static wherry_code format_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				 size_t n, size_t *out_taken, wherry_error *err)
{
	format_publisher *p = of(pub);
	wherry_code code = WHERRY_OK;

	while (*out_taken < n && !p->refused && code == WHERRY_OK) {
		const wherry_message *const *at = msgs + *out_taken;
		const wherry_message *bad = NULL;
		wherry_error why = WHERRY_ERROR_INIT;
		wh_formed *made[CHUNK_MOST] = {NULL};
		size_t left = n - *out_taken, n_made = 0, taken = 0;
		wherry_code making;

		if (left > p->chunk)
			left = p->chunk;
		making = make_some(p, at, left, made, &n_made, &bad, &why);
		if (n_made)
			code = hand_over(p, made, n_made, &taken, err);
		*out_taken += taken;
		p->chunk = taken < n_made          ? taken + 1
			   : p->chunk < CHUNK_MOST ? p->chunk * 2
						   : CHUNK_MOST;
		if (p->chunk > CHUNK_MOST)
			p->chunk = CHUNK_MOST;
		if (code != WHERRY_OK || taken < n_made)
			break;
		if (making != WHERRY_OK)
			return *out_taken ? WHERRY_OK
					  : wh_fail(err, making, "%s", why.message);
		if (bad) {
			refuse(p, bad, why.message);
			++*out_taken;
		}
	}
	return code;
}

/* The destination gives back a constant pointer to the first member of our structure. */
static wh_formed *formed_of(const wherry_message *msg)
{
	wh_formed *formed;

	memcpy(&formed, &msg, sizeof(formed));
	return formed;
}

static wherry_code format_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				  size_t *out_n, wherry_error *err)
{
	format_publisher *p = of(pub);
	wherry_code code = WHERRY_OK;
	size_t n = 0;

	if (p->n_in_flight)
		code = wh_publisher_collect(p->around.inner, out, cap, &n, err);
	for (size_t i = 0; i < n; i++) {
		wh_formed *formed = formed_of(out[i].message);

		out[i].message = formed->given;
		link_out(p, formed);
		give_spare(p, formed);
	}
	if (code == WHERRY_OK && p->refused && n < cap) {
		out[n] = (wh_receipt){0};
		wh_receipt_fill(&out[n++], p->refused, WHERRY_REJECTED, p->reason);
		p->refused = NULL;
	}
	*out_n = n;
	return code;
}

static void format_drop(wherry_publisher *pub)
{
	format_publisher *p = of(pub);

	wh_publisher_drop(p->around.inner);
	free_list(p->in_flight);
	p->in_flight = NULL;
	p->n_in_flight = 0;
	p->refused = NULL;
}

static int64_t format_deadline(wherry_publisher *pub)
{
	return of(pub)->refused ? 0 : wh_publisher_deadline(of(pub)->around.inner);
}

/* A destination keeps the order of the keys that it gets.  If these are other keys, one
 * message of a key is in flight at a time. */
static unsigned caps_of(const wh_publisher_driver *to, const wh_format *format)
{
	return *format->key ? to->caps & ~(unsigned)WH_PUB_ORDERED : to->caps;
}

static wherry_code put_in_front(wh_format *format, wherry_publisher *to,
				wherry_publisher **out, wherry_error *err)
{
	static const wh_publisher_driver own = {
		.close = format_close,
		.submit = format_submit,
		.collect = format_collect,
		.drop = format_drop,
		.deadline = format_deadline,
	};
	format_publisher *p = calloc(1, sizeof(*p));

	if (!p)
		return wh_oom(err);
	p->format = *format;
	p->chunk = 1;
	wh_around_make(&p->around, to, &own);
	p->around.table.caps = caps_of(to->driver, format);
	*out = &p->around.base;
	return WHERRY_OK;
}

wherry_code wh_format_wrap(const wherry_config *config, wherry_publisher **pub,
			   wherry_error *err)
{
	static const wh_binding any = WH_BINDING_ANY;
	const wh_binding *binding = (*pub)->driver->binding;
	wh_format format = {.kind = WH_FORMAT_RAW};
	bool used = false;
	wherry_code code =
		wh_format_read(config, binding ? binding : &any, &format, &used, err);

	if (code == WHERRY_OK && used) {
		code = put_in_front(&format, *pub, pub, err);
		used = code == WHERRY_OK;
	}
	if (code != WHERRY_OK) {
		wherry_publisher_close(*pub);
		*pub = NULL;
	}
	if (!used)
		wh_format_clear(&format);
	return code;
}

wherry_publisher *wh_format_inner(const wherry_publisher *pub)
{
	return pub->driver->submit == format_submit ? ((const wh_around *)pub)->inner
						    : NULL;
}
