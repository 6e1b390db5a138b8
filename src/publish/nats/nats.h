/*
 * nats: delivers to streams of JetStream through libnats.  nats.c is the driver, the other
 * files are its parts.
 *
 * A link is one connection with its thread.  It lives until the connection fails; then the
 * relay opens the destination again, and the next submit makes a new link.
 */
#ifndef WH_PUBLISH_NATS_H
#define WH_PUBLISH_NATS_H

#include <stdatomic.h>

#include <nats/nats.h>

#include "publish/flight.h"

/* ---- the URL and the settings nats.*: nats_settings.c ---- */

typedef struct wh_nats_settings {
	atomic_int refs;  /* The publisher and each link. */
	bool secure;      /* nats+tls: */
	char **servers;   /* "nats://host:port" */
	size_t n_servers; /* At least one. */
	char *hosts;      /* As in the URL, for messages. */
	char *subject;    /* Template; see nats_subject.c. */
	char *stream;     /* NULL: any. */
	char *create;     /* Subjects of the stream to make; NULL: make none. */
	int64_t replicas; /* Of that stream. */
	char *user;       /* NULL: none, and so on. */
	char *password;
	char *token;
	char *jwt;             /* Of nats.credentials. */
	char *seed;            /* Of nats.credentials or nats.nkey. */
	char *ca, *cert, *key; /* Contents of PEM files. */
	int64_t limit_us;      /* How long a delivery may take. */
} wh_nats_settings;

wherry_code wh_nats_settings_read(bool secure, const char *rest,
				  const wherry_config *config, wh_nats_settings **out,
				  wherry_error *err);
wh_nats_settings *wh_nats_settings_share(wh_nats_settings *set);
void wh_nats_settings_leave(wh_nats_settings *set); /* set may be NULL. */

/* Append a line for each protection that a destination without TLS gives up.  If the URL or
 * the settings are invalid, append nothing. */
void wh_nats_warn(const char *rest, const wherry_config *config, wh_buf *out);

/* ---- keys: nats_key.c ---- */

enum { WH_NATS_KEY_LEN = 57 }; /* A public key, with its NUL. */

/* The public key of a user's seed, "SU…".  INVALID: it is not such a seed. */
wherry_code wh_nats_public_key(const char *seed, char out[WH_NATS_KEY_LEN],
			       wherry_error *err);

/* Find JWT and seed in the text of a credentials file.  The caller frees both. */
wherry_code wh_nats_credentials(const char *text, char **out_jwt, char **out_seed,
				wherry_error *err);

/* ---- subjects: nats_subject.c ---- */

enum { WH_NATS_SUBJECT_LEN = 2048 };

/* Refuse a template that makes no valid subjects. */
wherry_code wh_nats_template_check(const char *template, wherry_error *err);

/* Write the subject of a message.  INVALID: it has none. */
wherry_code wh_nats_subject(const char *template, const wherry_message *msg,
			    char out[WH_NATS_SUBJECT_LEN], wherry_error *err);

/* ---- a message as NATS has it: nats_message.c ---- */

/* INVALID: this message cannot be sent.  The caller destroys it. */
wherry_code wh_nats_message(const wh_nats_settings *set, const wherry_message *msg,
			    const char *subject, const char *reply, natsMsg **out,
			    wherry_error *err);

/* ---- how to connect: nats_options.c ---- */

/* The options of libnats for these settings, which must outlive them.  INVALID: libnats refuses
 * one.  The caller destroys them. */
wherry_code wh_nats_options(wh_nats_settings *set, natsOptions **out, wherry_error *err);

/* Start libnats, if it was not yet started.  Call it before all other functions of libnats. */
wherry_code wh_nats_start(wherry_error *err);

/* Describe the error of the last call of libnats in this thread. */
wherry_code wh_nats_fail(const wh_nats_settings *set, natsStatus status,
			 wherry_error *err);

/* ---- one connection: nats_link.c ---- */

typedef enum wh_nats_outcome {
	WH_NATS_STORED,
	WH_NATS_DOUBLED, /* The stream had a message with this id. */
	WH_NATS_REFUSED, /* The stream's answer is an error; code and number say which. */
	WH_NATS_UNANSWERED, /* No stream takes the subject. */
	WH_NATS_TOO_LARGE,  /* Over the server's max_payload; it was not sent. */
	WH_NATS_FORBIDDEN,  /* No right to publish to the subject. */
	WH_NATS_STRANGE     /* The answer is not a stream's. */
} wh_nats_outcome;

typedef struct wh_nats_answer {
	int64_t token;    /* Of the message. */
	uint64_t subject; /* FORBIDDEN: hash of the subject. */
	wh_nats_outcome outcome;
	int code, number; /* REFUSED: code and err_code. */
	char *text;       /* Of the server; NULL: none.  The receiver frees it. */
} wh_nats_answer;

/* Parse what a stream answered. */
wh_nats_answer wh_nats_answer_read(const char *data, size_t len);

typedef struct wh_nats_link wh_nats_link;

/* Start to connect.  The link shares the settings.  random chooses the subject of answers. */
wherry_code wh_nats_link_new(wh_nats_settings *set, uint64_t random, wh_nats_link **out,
			     wherry_error *err);

/* Readable while there are answers, or when the link has failed. */
int wh_nats_link_fd(const wh_nats_link *link);

/* The most bytes of a message that the server takes; 0: it has not said so yet. */
size_t wh_nats_link_most(wh_nats_link *link);

/* The reply subject for a token, which the link's answers will have. */
enum { WH_NATS_REPLY_LEN = 64 };
void wh_nats_link_reply(const wh_nats_link *link, int64_t token,
			char out[WH_NATS_REPLY_LEN]);

/* Messages to send, in order. */
enum { WH_NATS_BATCH = 256 };
typedef struct wh_nats_batch {
	struct wh_nats_batch *next;
	size_t n;
	natsMsg *msgs[WH_NATS_BATCH];
} wh_nats_batch;

/* Takes over a batch. */
void wh_nats_link_send(wh_nats_link *link, wh_nats_batch *batch);
void wh_nats_batch_free(wh_nats_batch *batch);

/* Take all answers that are there.  They are valid until the next call; the caller frees their
 * texts. */
const wh_nats_answer *wh_nats_link_answers(wh_nats_link *link, size_t *out_n);

/* OK: the link has not failed. */
wherry_code wh_nats_link_failed(wh_nats_link *link, wherry_error *err);

/* Forget what is in flight and end the link without waiting. */
void wh_nats_link_leave(wh_nats_link *link);

/* Free a link that was left.  False: it has not ended within wait_us. */
bool wh_nats_link_free(wh_nats_link *link, int64_t wait_us);

/* Free it when it ends. */
void wh_nats_link_abandon(wh_nats_link *link);

/* ---- the publisher ---- */

typedef struct wh_nats_job {
	wh_flight flight; /* First member; owns its reason. */
	int64_t token;
	uint64_t subject; /* Hash. */
	int64_t deadline_us;
} wh_nats_job;

/* Messages in flight by their tokens: nats_jobs.c. */
typedef struct wh_nats_slot {
	wh_nats_job *job;    /* NULL: free. */
	uint32_t generation; /* Counts the jobs that it had. */
	uint32_t next_free;
} wh_nats_slot;

typedef struct wh_nats_jobs {
	wh_nats_slot *slots;
	uint32_t n;
	uint32_t first_free; /* n: there is none. */
} wh_nats_jobs;

/* Give the job a token that no other had.  False: out of memory. */
bool wh_nats_jobs_add(wh_nats_jobs *jobs, wh_nats_job *job);
/* NULL: it is not in flight any more. */
wh_nats_job *wh_nats_jobs_find(const wh_nats_jobs *jobs, int64_t token);
void wh_nats_jobs_remove(wh_nats_jobs *jobs, const wh_nats_job *job);
void wh_nats_jobs_clear(wh_nats_jobs *jobs);

typedef struct wh_nats_stats {
	int64_t delivered, bytes; /* Since the opening. */
	int64_t doubled;          /* Of delivered: the stream had the message. */
	int64_t failed;
	int64_t links; /* Connections begun. */
} wh_nats_stats;

/* Fill in the verdict on a message: nats_verdict.c. */
void wh_nats_judge(wh_flight *flight, const wh_nats_answer *answer, const char *subject);

#endif
