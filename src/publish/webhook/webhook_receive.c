/*
 * Answers to requests in flight, and the receipts that follow from them.
 */
#include "publish/webhook/webhook_slots.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
	ANSWER_MAX = 262144, /* Most bytes read of an answer, */
	ANSWER_US = 2000000, /* and the longest time after its headers. */
	SILENCE_US = 15000000
};

/* The headers of the answer are there: its status decides, and the rest of it may take
 * ANSWER_US.  An answer of 1xx comes before the answer. */
size_t wh_webhook_take_header(char *data, size_t size, size_t n, void *ctx)
{
	wh_webhook_slot *s = ctx;
	wh_webhook *p = s->of;
	size_t len = size * n;
	long status = 0;

	if (len > 2 || !len || (*data != '\r' && *data != '\n') || s->headers_us)
		return len;
	(void)curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200)
		return len;
	s->headers_us = wh_monotonic(p->env);
	p->n_in_body++;
	p->body_by_us = wh_sooner(p->body_by_us, wh_later(s->headers_us, ANSWER_US));
	return len;
}

size_t wh_webhook_take_body(char *data, size_t size, size_t n, void *ctx)
{
	wh_webhook_slot *s = ctx;
	size_t len = size * n;
	size_t room = s->read < WH_WEBHOOK_EXCERPT ? WH_WEBHOOK_EXCERPT - s->read : 0;

	memcpy(s->excerpt + (WH_WEBHOOK_EXCERPT - room), data, len < room ? len : room);
	s->read += len;
	return s->read > ANSWER_MAX ? 0 : len;
}

void wh_webhook_finish(wh_webhook *p, wh_webhook_slot *s, wherry_verdict verdict,
		       const char *reason)
{
	s->phase = WH_SLOT_OVER;
	s->flight.verdict = verdict;
	(void)snprintf(s->reason, sizeof(s->reason), "%.*s", (int)sizeof(s->reason) - 1,
		       reason);
	wh_flights_append(&p->over, &s->flight);
}

static const char *header_of(CURL *easy, const char *name)
{
	struct curl_header *header = NULL;

	return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK
		       ? header->value
		       : NULL;
}

/* Seconds of Retry-After.  A date is one of the receiver's clock, which may differ from
 * ours, so compare it with the answer's Date.  Some receivers send the seconds of a time
 * since 1970 where a duration belongs. */
static curl_off_t wait_by_their_clock(CURL *easy, curl_off_t wait, int64_t now_s)
{
	enum { YEAR_S = 365 * 24 * 3600 };
	const char *until = header_of(easy, "Retry-After");
	const char *date = header_of(easy, "Date");
	time_t until_s = -1, date_s = date ? curl_getdate(date, NULL) : -1;

	if (date_s < 0)
		date_s = now_s;
	if (until && strchr(until, ':'))
		until_s = curl_getdate(until, NULL);
	else if (wait > 20 * (curl_off_t)YEAR_S)
		until_s = wait;
	if (until_s < 0)
		return wait;
	return until_s > date_s ? until_s - date_s : 0;
}

static wh_webhook_verdict judge(const wh_webhook *p, wh_webhook_slot *s, CURLcode result)
{
	wh_webhook_answer answer = {
		.result = result,
		.refused = s->refused,
		.error = s->error,
		.text = s->excerpt,
	};
	curl_off_t wait = 0, ready = 0;
	char *elsewhere = NULL;

	(void)curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &answer.status);
	(void)curl_easy_getinfo(s->easy, CURLINFO_SSL_VERIFYRESULT, &answer.certificate);
	(void)curl_easy_getinfo(s->easy, CURLINFO_RETRY_AFTER, &wait);
	wait = wait_by_their_clock(s->easy, wait, wh_now(p->env) / WH_SECOND);
	(void)curl_easy_getinfo(s->easy, CURLINFO_PRETRANSFER_TIME_T, &ready);
	(void)curl_easy_getinfo(s->easy, CURLINFO_REDIRECT_URL, &elsewhere);
	answer.retry_after_s = wait > 0 ? wait : 0;
	answer.sent = ready > 0;
	answer.elsewhere = elsewhere;
	return wh_webhook_judge(&answer);
}

static void learn_speech(wh_webhook *p, const wh_webhook_slot *s, CURLcode result)
{
	long version = 0, status = 0;

	(void)curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (result == CURLE_HTTP2_STREAM && !status)
		p->was_reset = true;
	if (!p->set.secure ||
	    curl_easy_getinfo(s->easy, CURLINFO_HTTP_VERSION, &version) != CURLE_OK)
		return;
	if (version)
		p->speech = version >= CURL_HTTP_VERSION_2_0 ? WH_SPEECH_HTTP_2
							     : WH_SPEECH_HTTP_1;
}

/*
 * After a time-out libcurl ends the request and keeps the connection of HTTP/2, which may be
 * dead: a firewall or a proxy may have dropped it silently.  If it has answered nothing since
 * this request began, end it.  Requests that are in flight there fail now, not at their
 * time-outs, and the next one gets a new connection.
 */
static void end_silent(wh_webhook *p, const wh_webhook_slot *s, CURLcode result)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	long status = 0;
	int64_t *answered_us;

	if (curl_easy_getinfo(s->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd < 0)
		return;
	answered_us = &p->answered_us[fd % WH_WEBHOOK_WATCHED];
	(void)curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status)
		*answered_us = p->quiet_us = wh_monotonic(p->env);
	else if (result == CURLE_OPERATION_TIMEDOUT && *answered_us <= s->started_us)
		(void)shutdown(fd, SHUT_RDWR);
}

static void conclude(wh_webhook *p, wh_webhook_slot *s, CURLcode result)
{
	wh_webhook_verdict v = judge(p, s, result);

	end_silent(p, s, result);
	learn_speech(p, s, result);
	wh_webhook_count(&p->counts, s->easy, result);
	(void)curl_multi_remove_handle(p->multi, s->easy);
	p->n_in_flight--;
	p->n_in_body -= s->headers_us != 0;
	if (v.code == WHERRY_OK) {
		wh_webhook_finish(p, s, v.verdict, v.reason);
		s->flight.retry_after_us = v.retry_after_us;
		s->flight.denied = v.denied;
		return;
	}
	s->phase = WH_SLOT_BROKEN;
	p->n_broken++;
	if (p->broken.code == WHERRY_OK)
		(void)wh_fail_native(&p->broken, v.code, (int)result, "%s", v.reason);
}

/* Is the rest of the answer late?  A receiver may answer before it has read the request. */
static bool is_late(const wh_webhook_slot *s, int64_t now)
{
	curl_off_t sent = 0;

	if (s->phase != WH_SLOT_IN_FLIGHT || !s->headers_us ||
	    now < wh_later(s->headers_us, ANSWER_US))
		return false;
	(void)curl_easy_getinfo(s->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
	return sent >= (curl_off_t)s->request.body_len;
}

/* End the requests whose answers have a status, and whose bodies do not end. */
static void end_late_bodies(wh_webhook *p)
{
	int64_t now = wh_monotonic(p->env);

	if (!p->n_in_body)
		p->body_by_us = WH_NEVER;
	if (now < p->body_by_us)
		return;
	p->body_by_us = WH_NEVER;
	for (size_t i = 0; i < p->n_slots; i++) {
		wh_webhook_slot *s = &p->slots[i];
		int64_t by_us;

		if (is_late(s, now)) {
			conclude(p, s, CURLE_WRITE_ERROR);
		} else if (s->phase == WH_SLOT_IN_FLIGHT && s->headers_us) {
			by_us = wh_later(s->headers_us, ANSWER_US);
			p->body_by_us =
				wh_sooner(p->body_by_us,
					  by_us > now ? by_us : wh_later(now, ANSWER_US));
		}
	}
}

void wh_webhook_go_on(wh_webhook *p)
{
	long wait_ms = -1;
	int running, left;
	CURLMsg *over;

	(void)curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	while ((over = curl_multi_info_read(p->multi, &left))) {
		wh_webhook_slot *s = NULL;

		if (over->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(over->easy_handle, CURLINFO_PRIVATE, (char **)&s);
		conclude(p, s, over->data.result);
	}
	end_late_bodies(p);
	(void)curl_multi_timeout(p->multi, &wait_ms);
	p->timer_us = wait_ms < 0
			      ? WH_NEVER
			      : wh_later(wh_monotonic(p->env), (int64_t)wait_ms * 1000);
}

void wh_webhook_drive(wh_webhook *p)
{
	struct epoll_event events[64];
	int ready = wh_watch_ready(&p->watch, events, 64), running;

	for (int i = 0; i < ready; i++) {
		unsigned got = events[i].events;
		int what = (got & EPOLLIN ? CURL_CSELECT_IN : 0) |
			   (got & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
			   (got & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);

		(void)curl_multi_socket_action(p->multi, events[i].data.fd, what,
					       &running);
	}
	wh_webhook_go_on(p);
}

/* A silence of 15 s, or of half of webhook.timeout if that is shorter. */
static int64_t silence_us(const wh_webhook *p)
{
	return wh_sooner(SILENCE_US, p->set.limit_us / 2);
}

int64_t wh_webhook_trouble_at(const wh_webhook *p)
{
	return wh_later(p->quiet_us, silence_us(p));
}

const char *wh_webhook_trouble(wherry_publisher *pub)
{
	wh_webhook *p = (wh_webhook *)pub;

	if (!p->n_in_flight || wh_monotonic(p->env) < wh_webhook_trouble_at(p))
		return NULL;
	(void)snprintf(p->trouble, sizeof(p->trouble),
		       "no request was answered for %lld s",
		       (long long)(silence_us(p) / WH_SECOND));
	return p->trouble;
}
