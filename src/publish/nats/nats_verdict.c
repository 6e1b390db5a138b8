/*
 * The verdict on a message that an answer means.
 */
#include "publish/nats/nats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publish/parts.h"

enum { HELD_US = 2000000 }; /* Until a message tries its subject again. */

typedef enum meaning {
	PLACE,    /* A condition of the stream or the server: the message waits. */
	REJECTED, /* This message will never be taken. */
	SLOWER,   /* The server asks to wait. */
	MESSAGE   /* This message was refused, and an attempt is counted. */
} meaning;

static const struct {
	int number; /* err_code of JetStream. */
	meaning meaning;
	const char *advice;
} errors[] = {
	{10002, PLACE, "raise the limits of the account"},
	{10008, PLACE, "the servers of JetStream have no leader now"},
	{10009, PLACE, "the servers of JetStream have no leader now"},
	{10023, PLACE, "raise the server's max_file_store or max_memory_store"},
	{10028, PLACE, "raise the server's max_memory_store"},
	{10039, PLACE, "turn JetStream on for the account"},
	{10047, PLACE, "raise the server's max_file_store"},
	{10054, REJECTED, "raise the stream's max_msg_size, " WH_OR_BODY_STORE},
	{10060, PLACE, "nats.stream names another stream than the one of this subject"},
	{10076, PLACE, "turn JetStream on"},
	{10077, PLACE,
	 "raise the stream's limits, delete from it, or let it discard old "
	 "messages"},
	{10097, REJECTED, "headers of a message have 64 kB at most"},
	{10109, PLACE, "the stream is sealed and takes nothing any more"},
};

static meaning meaning_of(const wh_nats_answer *answer, const char **out_advice)
{
	*out_advice = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].number == answer->number) {
			*out_advice = errors[i].advice;
			return errors[i].meaning;
		}
	if (answer->code == 429)
		return SLOWER;
	return answer->code >= 500 ? PLACE : MESSAGE;
}

static void hold(wh_flight *flight)
{
	flight->verdict = WHERRY_RETRY;
	flight->held = true;
	flight->retry_after_us = HELD_US;
}

static void judge_refusal(wh_flight *flight, const wh_nats_answer *answer, char *out,
			  size_t cap)
{
	const char *advice;
	enum meaning means = meaning_of(answer, &advice);
	char before[48];

	(void)snprintf(before, sizeof(before), "the stream refuses it (%d)",
		       answer->number);
	wh_put_answer(out, cap, before, answer->text ? answer->text : "no reason",
		      advice);
	if (means == PLACE)
		hold(flight);
	flight->verdict = means == REJECTED ? WHERRY_REJECTED
			  : means == SLOWER ? WHERRY_THROTTLED
					    : WHERRY_RETRY;
	flight->own = means == MESSAGE;
}

void wh_nats_judge(wh_flight *flight, const wh_nats_answer *answer, const char *subject)
{
	char text[sizeof(((wh_receipt *)NULL)->reason)] = "";

	switch (answer->outcome) {
	case WH_NATS_STORED:
	case WH_NATS_DOUBLED:
		flight->verdict = WHERRY_DELIVERED;
		return;
	case WH_NATS_REFUSED:
		judge_refusal(flight, answer, text, sizeof(text));
		break;
	case WH_NATS_UNANSWERED:
		hold(flight);
		(void)snprintf(
			text, sizeof(text),
			"no stream takes the subject '%.60s': make one that does, as "
			"with nats.stream=NAME and nats.create_stream=SUBJECTS, or "
			"turn JetStream on",
			subject);
		break;
	case WH_NATS_FORBIDDEN:
		hold(flight);
		flight->denied = true;
		(void)snprintf(text, sizeof(text),
			       "no right to publish to '%.80s': permit it to this user",
			       subject);
		break;
	case WH_NATS_TOO_LARGE:
		flight->verdict = WHERRY_REJECTED;
		(void)snprintf(text, sizeof(text), "%s",
			       answer->text ? answer->text : "over max_payload");
		break;
	case WH_NATS_STRANGE:
		flight->verdict = WHERRY_UNKNOWN;
		(void)snprintf(
			text, sizeof(text),
			"the answer on the subject '%.80s' is not a stream's: does a "
			"service listen there?",
			subject);
		break;
	}
	flight->reason = strdup(text);
}
