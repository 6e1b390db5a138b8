/*
 * Counters of requests, for metrics.
 */
#include <string.h>

#include "publish/webhook/webhook.h"

static int class_of(long status)
{
	if (status == 429)
		return WH_WEBHOOK_429;
	if (status < 200 || status > 599)
		return WH_WEBHOOK_NONE;
	return WH_WEBHOOK_2XX + (int)(status / 100) - 2;
}

void wh_webhook_count(wh_webhook_counts *counts, CURL *easy, CURLcode result)
{
	long status = 0, connections = 0, sent = 0;
	curl_off_t body = 0;
	int class;

	(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	(void)curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connections);
	(void)curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &sent);
	(void)curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &body);
	class = class_of(status);
	if (class != WH_WEBHOOK_NONE)
		counts->answers[class]++;
	else if (result == CURLE_OPERATION_TIMEDOUT)
		counts->timeouts++;
	else
		counts->answers[WH_WEBHOOK_NONE]++;
	counts->connections += connections;
	if (!connections && sent)
		counts->reused++;
	counts->bytes += body;
}

#define ANSWERS(class) "webhook_answers_total{class=\"" class "\"}"

size_t wh_webhook_numbers(const wh_webhook_counts *counts, wh_number *out)
{
	static const char answers[] =
		"Answers by class; those of 429 are not among those of 4xx.";
	const int64_t *n = counts->answers;
	const wh_number numbers[] = {
		{ANSWERS("2xx"), answers, n[WH_WEBHOOK_2XX]},
		{ANSWERS("3xx"), answers, n[WH_WEBHOOK_3XX]},
		{ANSWERS("4xx"), answers, n[WH_WEBHOOK_4XX]},
		{ANSWERS("429"), answers, n[WH_WEBHOOK_429]},
		{ANSWERS("5xx"), answers, n[WH_WEBHOOK_5XX]},
		{"webhook_timeouts_total", "Requests that were not answered in time.",
		 counts->timeouts},
		{"webhook_unanswered_total",
		 "Requests that ended without an answer for another reason.",
		 n[WH_WEBHOOK_NONE]},
		{"webhook_connections_total", "Connections opened.", counts->connections},
		{"webhook_reused_total",
		 "Requests over a connection that was open already.", counts->reused},
		{"webhook_bytes_total", "Bytes of bodies sent.", counts->bytes},
	};

	memcpy(out, numbers, sizeof(numbers));
	return sizeof(numbers) / sizeof(*numbers);
}
