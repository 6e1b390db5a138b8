/*
 * kafka: over librdkafka.  kafka.c is the driver; the rest are its parts.
 *
 * A client (rd_kafka_t) lives until something fails for good.  Then nothing more is handed to
 * it, its messages come back, and a new client begins: so no message overtakes an earlier
 * one of its key that failed.
 */
#ifndef WH_PUBLISH_KAFKA_H
#define WH_PUBLISH_KAFKA_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>

#include "publish/flight.h"

/* ---- what the URL says: kafka_url.c ---- */

typedef struct wh_kafka_settings {
	rd_kafka_conf_t *conf; /* for rd_kafka_conf_dup() */
	char *brokers;
	char *topic;    /* all messages go there; NULL: each to its own */
	char *prefix;   /* before each topic, "" by default */
	char *token;    /* where OAUTHBEARER tokens are: env:NAME, file:PATH */
	int partitions; /* topics that are not there are made so; 0: they are not */
	int replication;
	char *transactional; /* the beginning of transactional.id; NULL: no transactions */
	bool oidc;           /* librdkafka fetches tokens itself */
	bool interval;       /* statistics.interval.ms is given */
	bool watched;        /* somebody looks at numbers */
	bool ordered;        /* idempotence is on */
	int64_t limit_us;    /* how long a delivery may take */
	size_t message_max;  /* bytes */
} wh_kafka_settings;

wherry_code wh_kafka_settings_read(const char *rest, const wherry_config *config,
				   wh_kafka_settings *out, wherry_error *err);
void wh_kafka_settings_clear(wh_kafka_settings *set);

/* Where a message goes: the name.  Borrowed, or from buf. */
const char *wh_kafka_topic_of(const wh_kafka_settings *set, const wherry_message *msg,
			      char *buf, size_t cap);

/* The text behind env: or file:, or the text itself.  Given. */
/* Refuse a property that runs code, unless kafka.run_code is on. */
wherry_code wh_kafka_allow(const wherry_config *config, const char *name,
			   const char *value, wherry_error *err);

/* A line for each protection that a URL gives up; nothing for one that cannot be used. */
void wh_kafka_warn(const char *rest, const wherry_config *config, wh_buf *out);

wherry_code wh_kafka_secret(const char *name, const char *text, char **out,
			    wherry_error *err);

/* ---- a message as a record: kafka_record.c ---- */

typedef struct wh_kafka_record {
	const char *key;             /* NULL: none */
	rd_kafka_headers_t *headers; /* given */
	int32_t partition;           /* RD_KAFKA_PARTITION_UA: by the key */
} wh_kafka_record;

/* INVALID: this message cannot be sent. */
wherry_code wh_kafka_record_fill(const wherry_message *msg, wh_kafka_record *out,
				 wherry_error *err);

/* ---- one client: kafka_client.c ---- */

/* Clients that are ending, each in a separate thread: librdkafka may take long to resolve a
 * name, and the relay must not wait for that. */
typedef struct wh_kafka_exits wh_kafka_exits;

typedef struct wh_kafka_transaction wh_kafka_transaction;
typedef struct wh_kafka_look wh_kafka_look;

typedef struct wh_kafka_client {
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue; /* all its events come here */
	rd_kafka_topic_t *topic; /* the last one used */
	int fd;                  /* readable when there are events */
	wh_kafka_exits *exits;
	wh_kafka_transaction *transaction; /* NULL: none yet, or never */
	wh_kafka_look *look;               /* NULL: none yet, or never */
} wh_kafka_client;

wh_kafka_exits *wh_kafka_exits_new(void); /* NULL: out of memory */
void wh_kafka_exits_free(
	wh_kafka_exits *exits); /* waits for them, a few seconds at most */

/* alone: each message is a separate request.  id: its transactional.id, or NULL. */
wherry_code wh_kafka_client_open(const wh_kafka_settings *set, bool alone, const char *id,
				 wh_kafka_exits *exits, wh_kafka_client **out,
				 wherry_error *err);

/* Forget what it holds and end it, without waiting.  NULL is fine. */
void wh_kafka_client_leave(wh_kafka_client *client);

/* Hand over a message, whose report will have this opaque. */
rd_kafka_resp_err_t wh_kafka_client_produce(wh_kafka_client *client,
					    const wh_kafka_settings *set,
					    const wherry_message *msg,
					    wh_kafka_record *record, void *opaque);

/* ---- what an error means: kafka_errors.c ---- */

typedef enum wh_kafka_meaning {
	WH_KAFKA_REJECTED,  /* the message's own fault, for good */
	WH_KAFKA_RETRY,     /* not taken; later it may be */
	WH_KAFKA_UNKNOWN,   /* perhaps written */
	WH_KAFKA_THROTTLED, /* slower */
	WH_KAFKA_INNOCENT,  /* came back because of another */
	WH_KAFKA_DENIED, /* credentials or rights: the destination's, unless it takes others */
	WH_KAFKA_CLOSED,  /* the connection's */
	WH_KAFKA_INVALID, /* set up wrongly */
	WH_KAFKA_FENCED   /* another producer has our transactional.id now */
} wh_kafka_meaning;

typedef struct wh_kafka_error {
	rd_kafka_resp_err_t code;
	wh_kafka_meaning meaning;
	const char *advice; /* what to do about it; NULL: librdkafka's text says all */
} wh_kafka_error;

/* Never NULL; what is not in the table is RETRY. */
const wh_kafka_error *wh_kafka_error_find(rd_kafka_resp_err_t code);

/* A token is due. */
void wh_kafka_client_authorize(wh_kafka_client *client, const wh_kafka_settings *set);

/* ---- what was taken: kafka_jobs.c ---- */

typedef enum wh_kafka_stage {
	WH_KAFKA_WAITING, /* behind one of its key that goes elsewhere, or is to prove it */
	WH_KAFKA_HANDED, /* librdkafka has it */
	WH_KAFKA_SENT,   /* brokers have it: in a transaction, to be committed */
	WH_KAFKA_FAILED  /* it came back */
} wh_kafka_stage;

typedef struct wh_kafka_job {
	wh_flight flight;            /* first; its reason is the job's, from malloc() */
	struct wh_kafka_job *behind; /* the next one that waits in its key */
	uint64_t key_hash;           /* 0: not ordered */
	uint64_t place; /* topic and partition as far as they are asked for */
	int64_t deadline_us;
	wh_kafka_stage stage;
	rd_kafka_resp_err_t error; /* of a failed one */
	bool maybe;                /* of a failed one: it may be written */
	bool unmade; /* it waits for its topic to be made, or for a transaction */
} wh_kafka_job;

void wh_kafka_jobs_clear(wh_flights *jobs); /* and free them */
wh_kafka_job *wh_kafka_job_new(const wherry_message *msg, const wh_kafka_settings *set);
void wh_kafka_job_free(wh_kafka_job *job);

/*
 * The keys in flight.  Kafka keeps the order within a partition.  Messages of a key that go
 * to different topics, or that name a partition, wait for each other.
 */
typedef struct wh_kafka_key {
	struct wh_kafka_key *next; /* in its bucket */
	uint64_t hash;
	uint64_t place;    /* where those that are handed go */
	int32_t partition; /* which that is, if it is proven; RD_KAFKA_PARTITION_UA */
	size_t handed;
	wh_kafka_job *head, *tail; /* those that wait */
} wh_kafka_key;

enum { WH_KAFKA_BUCKETS = 4096 };

/*
 * A broker refuses a request that is out of sequence, but accepts any first request of a
 * producer that it does not know in a partition.  So the first message of a key that a client
 * sends to a place is alone in flight: if it were refused, the next one could be accepted.
 * `proven` has, by key, the places where a message was delivered, and `partitions` the
 * partition of that message.  A place that was forgotten is proven again.
 */
typedef struct wh_kafka_keys {
	wh_kafka_key *buckets[WH_KAFKA_BUCKETS];
	uint64_t proven[WH_KAFKA_BUCKETS];
	int32_t partitions[WH_KAFKA_BUCKETS];
	int64_t renew_us; /* when all are to be proven again */
} wh_kafka_keys;

/* Called with the time.  A broker forgets a producer that it has not heard of for a day
 * (producer.id.expiration.ms, unless set); here proofs hold for an hour. */
void wh_kafka_keys_age(wh_kafka_keys *keys, int64_t now_us);

/* Of one in flight: was one delivered before to its place, and to this partition? */
bool wh_kafka_key_proves(const wh_kafka_keys *keys, const wh_kafka_job *job,
			 int32_t partition);

/* Is something of its key in flight, or waiting? */
bool wh_kafka_key_busy(const wh_kafka_keys *keys, uint64_t hash);

/* Make room for it, in flight or waiting: *out_now says which.  False: out of memory. */
bool wh_kafka_key_enter(wh_kafka_keys *keys, wh_kafka_job *job, bool *out_now);

/* One that was handed was acknowledged in this partition, or is done with
 * (RD_KAFKA_PARTITION_UA).  Returns what may be handed now, in order, linked by `behind`,
 * and counts it as handed; NULL: nothing. */
wh_kafka_job *wh_kafka_key_leave(wh_kafka_keys *keys, const wh_kafka_job *job,
				 int32_t partition);
void wh_kafka_keys_clear(wh_kafka_keys *keys);

/* ---- statistics ---- */

typedef struct wh_kafka_stats {
	int64_t delivered, bytes; /* since the opening */
	int64_t failed;           /* came back with an error that is theirs */
	int64_t returned;         /* came back because of others */
	int64_t clients;          /* opened */
	int64_t transactions;     /* committed */
	int64_t in_flight;
	int64_t last_delivery_us; /* on the monotonic clock; 0: none yet */
	bool down;                /* no broker can be reached */
} wh_kafka_stats;

/* librdkafka's statistics: kafka_stats.c */
typedef struct wh_kafka_watch {
	bool known;                      /* there were some */
	int64_t connected;               /* brokers */
	int64_t queued;                  /* messages */
	int64_t rtt_us;                  /* of a request, the 99th percentile */
	int64_t sent;                    /* bytes, since the opening */
	int64_t retries;                 /* of requests, since the opening */
	int64_t last_sent, last_retries; /* of this client */
} wh_kafka_watch;

void wh_kafka_watch_take(wh_kafka_watch *watch, const char *text);
void wh_kafka_watch_renew(wh_kafka_watch *watch); /* another client begins */
void wh_kafka_stats_get(const wherry_publisher *pub, wh_kafka_stats *out);
size_t wh_kafka_numbers(const wherry_publisher *pub, wh_number *out);

/* ---- topics that are to be made: kafka_topics.c ---- */

typedef struct wh_kafka_topic wh_kafka_topic;

/* Is it there, as far as we know?  If not, ask for it; the answer is an event. */
bool wh_kafka_topic_ready(wh_kafka_topic **topics, const char *name,
			  const wh_kafka_settings *set, wh_kafka_client *client);

/* The answer.  Whatever it is, what was to go there is sent now, and fails for what it is;
 * *out_why is what went wrong, "" if nothing did. */
void wh_kafka_topic_made(wh_kafka_topic *topics, rd_kafka_event_t *event, char *out_why,
			 size_t cap);
void wh_kafka_topics_forget(wh_kafka_topic **topics); /* what was asked for of a client */
void wh_kafka_topics_clear(wh_kafka_topic **topics);

/* ---- is a topic there: kafka_look.c ---- */

/* Ask, and log it if not.  NULL: out of memory. */
wh_kafka_look *wh_kafka_look_new(rd_kafka_t *rk, const char *topic, const wh_env *env);
void wh_kafka_look_leave(wh_kafka_look *look); /* nothing is logged any more */
void wh_kafka_look_end(wh_kafka_look *look);   /* waits for an answer, half a second */

/* ---- the publisher ---- */

typedef struct wh_kafka {
	wherry_publisher base;
	const wh_env *env;
	wh_kafka_settings set;
	wh_kafka_exits *exits;
	wh_kafka_client *client; /* NULL: the next submit opens one */
	wh_flights open;         /* taken and without a verdict, in order */
	wh_flights done;         /* with one, for receipts */
	size_t handed;           /* of the open ones: librdkafka has them */
	size_t sent;             /* and those that wait for a commit */
	wh_kafka_keys keys;
	wh_kafka_topic *topics; /* with create= */
	bool looked;            /* for the topic that the URL names */
	bool refusing;          /* a receipt waits of which the relay has to know first */
	int64_t alone_until;    /* each id up to here gets a separate request; 0: none */
	bool alone;             /* the client sends them so */
	int64_t apart;          /* the id that gets a separate transaction; 0: none */
	bool granted, renamed;  /* under a lease; the client has another's name */
	bool competes;          /* nobody has a lease */
	int32_t lease_number;
	int64_t epoch;
	bool served;          /* this client has delivered something */
	bool doubted;         /* it had to be sent something again; logged once */
	bool failing, purged; /* an episode, and how far it is */
	int64_t give_up_us;   /* when it ends */
	int64_t late_us;      /* deadlines up to here were missed; 0: none */
	wherry_error error;   /* the destination's; returned after all receipts */
	char why[160];        /* what librdkafka said last */
	wh_kafka_stats stats;
	wh_kafka_watch watch;
} wh_kafka;

/* The open ones in turn; NULL: there are no more. */
static inline wh_kafka_job *wh_kafka_first(const wh_kafka *p)
{
	return (wh_kafka_job *)p->open.head;
}

static inline wh_kafka_job *wh_kafka_next(const wh_kafka_job *job)
{
	return (wh_kafka_job *)job->flight.next;
}

/* The error of what no broker acknowledged, where it could not be sent again at once. */
#define WH_KAFKA_UNACKNOWLEDGED RD_KAFKA_RESP_ERR__RETRY

/* kafka_report.c: the destination failed; of several troubles the first counts. */
void wh_kafka_break_off(wh_kafka *p, wherry_code code, int native, const char *why,
			const char *advice);
rd_kafka_resp_err_t wh_kafka_hand_over(wh_kafka *p, wh_kafka_job *job, wherry_error *why);
void wh_kafka_serve(wh_kafka *p); /* all events that are there */
void wh_kafka_hand_on_unmade(wh_kafka *p);

/* ---- transactions: kafka_transaction.c ---- */

/* It begins.  NULL: out of memory. */
wh_kafka_transaction *wh_kafka_transaction_new(rd_kafka_t *rk, int fd);

/* Abort what is open, and free it.  Waits, for a second or two where nobody answers. */
void wh_kafka_transaction_end(wh_kafka_transaction *t, rd_kafka_queue_t *queue);

/* May it be handed over now? */
bool wh_kafka_transaction_takes(wh_kafka *p, const wherry_message *msg);

/* Is it not known whether what was sent is delivered? */
bool wh_kafka_transaction_commits(const wh_kafka *p);

/* Go on with what the thread has done; commit if it is time. */
void wh_kafka_transaction_step(wh_kafka *p);

/* All came back: give whom it may concern the error of the transaction. */
void wh_kafka_transaction_blame(wh_kafka *p);

/* kafka_verdict.c */
wherry_code wh_kafka_code_of(wh_kafka_meaning meaning);
void wh_kafka_describe(rd_kafka_resp_err_t code, char *out, size_t cap);
void wh_kafka_describe_of(const wh_kafka *p, const wherry_message *msg,
			  rd_kafka_resp_err_t code, char *out, size_t cap);
void wh_kafka_answer(wh_kafka *p, wh_kafka_job *job, wherry_verdict verdict,
		     const char *reason);
void wh_kafka_fail(wh_kafka *p); /* an episode begins */
void wh_kafka_fail_step(wh_kafka *p, int64_t now);
void wh_kafka_miss_deadline(wh_kafka *p, int64_t now);
void wh_kafka_leave_client(wh_kafka *p);

#endif
