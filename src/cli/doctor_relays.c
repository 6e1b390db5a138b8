/*
 * doctor on a table on which all relays work: whether it is paused, and what its relays say.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/relays.h"
#include "store/relay_report.h"

static void check_paused(wh_doctor *d, const char *what)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t control_version;
	bool paused = false;

	if (wh_store_control(d->store, &paused, &control_version, &err) != WHERRY_OK)
		wh_doctor_could_not(d, "paused", &err);
	else if (paused)
		wh_doctor_add(
			d, "paused", WH_BAD,
			wh_doctor_sentence("the %s is paused: relays deliver nothing",
					   what),
			wh_doctor_sentence("`wherry resume%s`", d->session->target));
	else
		wh_doctor_add(d, "paused", WH_WELL,
			      wh_doctor_sentence("the %s is not paused", what),
			      strdup(""));
}

static void check_destination(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf text = WH_BUF_INIT(WH_SENTENCE_MAX);
	const wh_holder *refused;
	wh_relays relays;

	if (wh_relays_read(d->store, &relays, &err) != WHERRY_OK) {
		wh_doctor_could_not(d, "destination", &err);
	} else if ((refused = wh_relays_refused(&relays))) {
		wh_report_put_refusal(&text, refused->destination, refused->error,
				      refused->state_us);
		wh_doctor_add(d, "destination", WH_BAD, wh_buf_take(&text),
			      strdup("repair the destination: messages lose no attempts "
				     "meanwhile"));
	} else {
		wh_doctor_add(d, "destination", WH_WELL,
			      strdup("no relay says that its destination refuses"),
			      strdup(""));
	}
	wh_buf_clear(&text);
	wh_relays_clear(&relays);
}

void wh_doctor_relays(wh_doctor *d, const char *what)
{
	check_paused(d, what);
	check_destination(d);
}
