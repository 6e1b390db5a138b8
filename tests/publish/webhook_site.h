/*
 * A receiver of webhooks and a publisher to it, for the tests of https: and http:.
 */
#ifndef WEBHOOK_SITE_H
#define WEBHOOK_SITE_H

#include <wherry/wherry.h>

#include "publish/driver.h"
#include "webhook_server.h"

typedef struct site {
	webhook_server *server;
	wherry_config *config;
	wherry_publisher *pub;
	char url[200];
} site;

/* args: of the receiver's command line, or NULL. */
site *site_begin(const char *const *args);
/* Over TLS, with a certificate of that name, trusting the good one; client may be NULL. */
site *site_begin_tls(const char *name, const char *client);
/* The same over HTTP/2, of which the receiver speaks only what its answer says. */
site *site_begin_http_2(const char *name);
void site_set(site *s, const char *key, const char *value);
void site_open(site *s); /* the publisher, anew */
void site_end(site *s);

/* ---- sending ---- */

wherry_message plain_message(const char *headers);
size_t site_submit(site *s, const wherry_message *msgs, size_t n); /* how many it took */
void site_await(site *s);
/* Until there are n receipts, or the destination fails. */
wherry_code site_collect(site *s, wh_receipt *out, size_t n, wherry_error *err);
wh_receipt site_send(site *s, const wherry_message *msg);
void site_delivers(site *s, const wherry_message *msg);
/* A message meets the destination's fault: the error, which names this. */
void site_fails(site *s, wherry_code want, const char *text);

/* One message is refused for what may be every message's, with a reason that has this text. */
void site_denies(site *s, const char *text);

/* ---- what arrived ---- */

const json_t *site_request(site *s, size_t n); /* valid until the next look */
size_t site_requests(site *s);
const char *entry_header(const json_t *entry, const char *name);
int64_t entry_number(const json_t *entry, const char *name);
void entry_has(const json_t *entry, const char *name, const char *want); /* NULL: not */

int site_run_tests(const struct CMUnitTest *tests, size_t n);
#define site_run(tests) site_run_tests((tests), sizeof(tests) / sizeof(*(tests)))

#endif
