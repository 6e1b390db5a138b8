/*
 * Why one message has not left, for `wherry doctor ID`.
 */
#include "cli/doctor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/target.h"
#include "outbox/outbox.h"

static const wh_finding *found(const wh_doctor *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->findings[i].level != WH_WELL &&
		    strcmp(d->findings[i].check, name) == 0)
			return &d->findings[i];
	return NULL;
}

static wh_level level_of(const wh_why *why, const wherry_row *row)
{
	bool native = !*why->session->outbox->store.limits;

	if (row->state == WHERRY_DONE)
		return WH_WELL;
	if (row->state == WHERRY_DEAD || why->status.paused ||
	    (native && why->status.lease_left_us <= 0))
		return WH_BAD;
	if (why->silent)
		return WH_WARN;
	if (wh_is_refused(&why->status))
		return WH_BAD;
	return row->state == WHERRY_FAILED || row->held_by || row->parked_by ? WH_WARN
									     : WH_WELL;
}

/* Name what could delay a message that no other message holds back. */
static void put_prospect(wh_buf *text, const wh_doctor *d)
{
	static const char *const causes[] = {"writing", "locks", "backlog",
					     "long-transactions"};
	char span[WH_SPAN_LEN];

	for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++) {
		const wh_finding *f = found(d, causes[i]);

		if (f) {
			wh_buf_printf(text, "; what may keep it: %s", f->what);
			return;
		}
	}
	wh_buf_printf(text, ": at the latest within %s", wh_span_text(d->poll_us, span));
}

typedef struct asked {
	wh_doctor *d;
	wh_why why;
} asked;

static wherry_code take_message(void *ctx, const wherry_row *row)
{
	asked *a = ctx;
	wh_level level = level_of(&a->why, row);
	wh_buf text = WH_BUF_INIT(2 * WH_SENTENCE_MAX);

	wh_buf_printf(&text, "message %" PRId64 " (%s) is %s: ", row->message->id,
		      row->message->message_id, wherry_state_name(row->state));
	wh_put_why(&text, &a->why, row);
	if (level == WH_WELL && row->state == WHERRY_PENDING &&
	    a->why.status.lease_left_us > 0)
		put_prospect(&text, a->d);
	wh_doctor_add(a->d, "message", level, wh_buf_take(&text), strdup(""));
	wh_buf_clear(&text);
	return WHERRY_OK;
}

static wherry_code take_absence(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_buf *text = ctx;

	(void)err;
	for (int column = 1; column <= 2; column++) {
		const char *value = wh_row_text(row, column);

		if (value && *value)
			wh_buf_printf(text, "; %s", value);
	}
	return WHERRY_OK;
}

static wherry_code absent(wh_doctor *d, const char *ident, wherry_error *err)
{
	const wh_stmt *stmt = wh_sql_find(&d->sql, "absent");
	wh_buf text = WH_BUF_INIT(WH_SENTENCE_MAX);
	wherry_code code = WHERRY_OK;

	wh_buf_printf(&text, "there is no message '%.100s' in outbox '%s'", ident,
		      d->session->table);
	if (stmt && !*d->session->outbox->store.limits)
		code = wh_doctor_run(d, stmt, ident, take_absence, &text, err);
	if (code == WHERRY_OK)
		wh_doctor_add(
			d, "message", WH_BAD, wh_buf_take(&text),
			strdup("it was never written here, or its transaction was rolled back "
			       "or is not over yet; or it left and was deleted ("
			       "outbox.retention): did the producer commit, and to "
			       "this database?"));
	wh_buf_clear(&text);
	return code;
}

/* Read the parts of the status that do not need to count messages. */
static wherry_code ask_relay(wherry_outbox *outbox, wherry_outbox_status *out,
			     wherry_error *err)
{
	wh_holder holder = WH_HOLDER_NONE;
	int64_t control_version;
	wherry_code code =
		wh_store_control(&outbox->store, &out->paused, &control_version, err);

	if (code == WHERRY_OK)
		code = wh_store_holder(&outbox->store, &holder, err);
	wh_outbox_relay_status(&outbox->store, &holder, out);
	return code;
}

wherry_code wh_doctor_message(wh_doctor *d, const char *ident, wherry_error *err)
{
	asked a = {.d = d, .why = {.session = d->session}};
	wherry_code code;

	code = wh_doctor_now(d, &a.why.now_us, err);
	if (code == WHERRY_OK)
		code = ask_relay(d->session->outbox, &a.why.status, err);
	if (code == WHERRY_OK)
		code = wh_is_silent(d->session, &a.why.status, &a.why.silent, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_show(d->session->outbox, ident, take_message, &a,
					  err);
	return code == WHERRY_NOTFOUND ? absent(d, ident, err) : code;
}
