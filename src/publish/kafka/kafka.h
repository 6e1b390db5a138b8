/*
 * kafka: delivers through librdkafka.  kafka.c is the driver, the other files are its
 * parts.
 *
 * A client (rd_kafka_t) lives until librdkafka reports a failure.  Then the driver hands
 * over no more messages, waits until all have come back, and opens a new client.  So no
 * message overtakes an earlier one of its key that failed.
 */
#ifndef WH_PUBLISH_KAFKA_H
#define WH_PUBLISH_KAFKA_H

#include <stdatomic.h>

#include <librdkafka/rdkafka.h>
#include <pthread.h>

#include "publish/flight.h"

/* ---- settings from the URL: kafka_url.c ---- */

typedef struct wh_kafka_settings {
	rd_kafka_conf_t *conf; /* Copied for each client. */
	char *brokers;
	char *topic;  /* Topic of all messages; NULL: their own topics. */
	char *prefix; /* Put before each topic; NULL: nothing. */
	/* Where to read OAUTHBEARER tokens: env:NAME, file:PATH or credential:NAME. */
	char *token;
	int partitions; /* For topics to be made; 0: make none. */
	int replication;
	bool oidc;          /* librdkafka fetches tokens itself. */
	bool interval;      /* statistics.interval.ms is set. */
	bool watched;       /* Somebody reads the metrics. */
	bool ordered;       /* Idempotence is on. */
	int64_t limit_us;   /* How long a delivery may take. */
	size_t message_max; /* message.max.bytes */
} wh_kafka_settings;

wherry_code wh_kafka_settings_read(const char *rest, const wherry_config *config,
				   wh_kafka_settings *out, wherry_error *err);
void wh_kafka_settings_clear(wh_kafka_settings *set);

/* The name of a message's topic.  Borrowed, or in buf. */
const char *wh_kafka_topic_of(const wh_kafka_settings *set, const wherry_message *msg,
			      char *buf, size_t cap);

/* Refuse a property with which librdkafka runs other code, unless kafka.run_code is
 * on. */
wherry_code wh_kafka_allow(const wherry_config *config, const char *name,
			   const char *value, wherry_error *err);

/* Refuse properties with which the relay could not keep its promises. */
wherry_code wh_kafka_promise(const wh_kafka_settings *set, wherry_error *err);

/* Append a line for each protection that the URL gives up.  If the URL is invalid, append
 * nothing. */
void wh_kafka_warn(const char *rest, const wherry_config *config, wh_buf *out);

/* Read the text that env:NAME, file:PATH or credential:NAME refers to, or copy the text
 * itself.  The caller frees it. */
wherry_code wh_kafka_secret(const char *name, const char *text, char **out,
			    wherry_error *err);

/* ---- a message as a record: kafka_record.c ---- */

typedef struct wh_kafka_record {
	const char *key;             /* NULL: none. */
	rd_kafka_headers_t *headers; /* The caller destroys them. */
	int32_t partition;           /* RD_KAFKA_PARTITION_UA: chosen by the key. */
} wh_kafka_record;

/* Make the record of a message.  INVALID: this message cannot be sent. */
wherry_code wh_kafka_record_fill(const wherry_message *msg, wh_kafka_record *out,
				 wherry_error *err);

/* ---- one client: kafka_client.c ---- */

/* Clients that are ending, each in a separate thread.  librdkafka may take long to
 * resolve a name, and the relay must not wait for that. */
typedef struct wh_kafka_exits wh_kafka_exits;

typedef struct wh_kafka_look wh_kafka_look;

typedef struct wh_kafka_client {
	rd_kafka_t *rk;
	rd_kafka_queue_t *queue; /* All its events arrive here. */
	rd_kafka_topic_t *topic; /* The topic used last. */
	int fd;                  /* Readable when events wait. */
	int64_t throttled_ms;    /* Brokers delayed us so long, since it was read. */
	bool throttle_logged;
	/* OpenSSL's number of the last certificate that was not accepted; 0: none.  Threads
	 * of librdkafka write it. */
	atomic_int certificate;
	wh_kafka_exits *exits;
	wh_kafka_look *look; /* NULL: none yet, or never */
} wh_kafka_client;

wh_kafka_exits *wh_kafka_exits_new(void); /* NULL: out of memory. */
/* Waits for the clients to end, a few seconds at most. */
void wh_kafka_exits_free(wh_kafka_exits *exits);

/* alone: send each message in a separate request. */
wherry_code wh_kafka_client_open(const wh_kafka_settings *set, bool alone,
				 wh_kafka_exits *exits, wh_kafka_client **out,
				 wherry_error *err);

/* Forget the client's messages and end it in another thread, without waiting.  client may
 * be NULL. */
void wh_kafka_client_leave(wh_kafka_client *client);

/* Look at a topic in a thread of the client; see wh_kafka_look_at(). */
void wh_kafka_client_look(wh_kafka_client *client, const wh_kafka_settings *set,
			  const wh_env *env, const char *topic, bool named);

/* Hand a message over to librdkafka.  Its delivery report will have this opaque. */
rd_kafka_resp_err_t wh_kafka_client_produce(wh_kafka_client *client,
					    const wh_kafka_settings *set,
					    const wherry_message *msg,
					    wh_kafka_record *record, void *opaque);

/* ---- what an error means: kafka_errors.c ---- */

typedef enum wh_kafka_meaning {
	WH_KAFKA_REJECTED, /* The message will never be taken. */
	/* The message was rejected, and its topic may reject every message. */
	WH_KAFKA_DOUBTED,
	/* A condition of the topic, such as a missing right; see kafka_places.c. */
	WH_KAFKA_TOPIC,
	WH_KAFKA_RETRY,     /* Not taken; it may be taken later. */
	WH_KAFKA_UNKNOWN,   /* The message may be written. */
	WH_KAFKA_THROTTLED, /* The brokers, or librdkafka, have no room now. */
	WH_KAFKA_RETURNED,  /* Came back because of another message. */
	/* Credentials or rights are wrong.  A failure of the destination, unless it takes
	 * other messages. */
	WH_KAFKA_DENIED,
	WH_KAFKA_CLOSED, /* The connection or the producer failed. */
	WH_KAFKA_INVALID /* The configuration is wrong. */
} wh_kafka_meaning;

typedef struct wh_kafka_error {
	rd_kafka_resp_err_t code;
	wh_kafka_meaning meaning;
	const char *advice; /* Advice; NULL: none. */
} wh_kafka_error;

/* Never NULL: an unknown code means RETRY. */
const wh_kafka_error *wh_kafka_error_find(rd_kafka_resp_err_t code);

/* Give librdkafka a token.  Call it when librdkafka asks for one. */
void wh_kafka_client_authorize(wh_kafka_client *client, const wh_kafka_settings *set);

/* ---- messages that were taken: kafka_jobs.c ---- */

typedef enum wh_kafka_stage {
	WH_KAFKA_WAITING, /* Not handed to librdkafka: waits for its key or its topic. */
	WH_KAFKA_HANDED,  /* librdkafka has it. */
	WH_KAFKA_FAILED   /* It came back. */
} wh_kafka_stage;

typedef struct wh_kafka_job {
	wh_flight flight;            /* First member; owns its reason. */
	struct wh_kafka_job *behind; /* The next job that waits in its key. */
	uint64_t key_hash;           /* 0: the message is not ordered. */
	/* Hash of its topic, its key and the partition that its headers name. */
	uint64_t place;
	int64_t deadline_us;
	/* FAILED: the partition it was for; RD_KAFKA_PARTITION_UA: not known. */
	int32_t partition;
	wh_kafka_stage stage;
	rd_kafka_resp_err_t error; /* FAILED: why. */
	bool maybe;                /* FAILED: the message may be written. */
	bool unmade;               /* Waits for its topic. */
} wh_kafka_job;

void wh_kafka_jobs_clear(wh_flights *jobs); /* Frees all jobs. */
wh_kafka_job *wh_kafka_job_new(const wherry_message *msg, const wh_kafka_settings *set);
void wh_kafka_job_free(wh_kafka_job *job);

/*
 * A key in flight.  Kafka keeps the order within a partition.  So messages of a key that
 * go to different topics, or that name a partition, wait for each other.
 */
typedef struct wh_kafka_key {
	struct wh_kafka_key *next; /* In its bucket. */
	uint64_t hash;
	uint64_t place; /* wh_kafka_job.place of its jobs that are handed over. */
	/* Partition of that place, if the place is proven; else RD_KAFKA_PARTITION_UA. */
	int32_t partition;
	size_t handed;
	wh_kafka_job *head, *tail; /* Jobs that wait. */
} wh_kafka_key;

enum { WH_KAFKA_BUCKETS = 4096 };

/*
 * A broker refuses a request that is out of sequence.  But it accepts any first request
 * of a producer that it does not know in a partition.  So the first message of a key that
 * a client sends to a place is alone in flight: if it were refused, the next one could be
 * accepted.  After its delivery the place is proven: `proven` has the place and
 * `partitions` the partition of that message, by the hash of the key.  A place that was
 * overwritten is proven again.
 */
typedef struct wh_kafka_keys {
	wh_kafka_key *buckets[WH_KAFKA_BUCKETS];
	uint64_t proven[WH_KAFKA_BUCKETS];
	int32_t partitions[WH_KAFKA_BUCKETS];
	int64_t renew_us; /* When to forget all proofs. */
} wh_kafka_keys;

/* Forget all proofs after an hour.  Call it before each submit.  A broker forgets a
 * producer that was silent for a day (producer.id.expiration.ms, unless set
 * otherwise). */
void wh_kafka_keys_age(wh_kafka_keys *keys, int64_t now_us);

/* job is in flight: is its place proven, with this partition? */
bool wh_kafka_key_proves(const wh_kafka_keys *keys, const wh_kafka_job *job,
			 int32_t partition);

/* Is a message of this key in flight, or waiting? */
bool wh_kafka_key_busy(const wh_kafka_keys *keys, uint64_t hash);

/* Add a job to its key.  *out_now: hand it over now; otherwise it waits.  False: out of
 * memory. */
bool wh_kafka_key_enter(wh_kafka_keys *keys, wh_kafka_job *job, bool *out_now);

/* A job that was handed over was delivered to this partition, or ended otherwise
 * (RD_KAFKA_PARTITION_UA).  Returns the jobs to hand over now, in order, linked by
 * `behind`, and counts them as handed over; NULL: none. */
wh_kafka_job *wh_kafka_key_leave(wh_kafka_keys *keys, const wh_kafka_job *job,
				 int32_t partition);
void wh_kafka_keys_clear(wh_kafka_keys *keys);

/* ---- statistics ---- */

typedef struct wh_kafka_stats {
	int64_t delivered, bytes; /* Since the opening. */
	int64_t failed;           /* Failed by themselves. */
	int64_t returned;         /* Came back because of other messages. */
	int64_t clients;          /* Clients opened. */
	int64_t in_flight;
	int64_t last_delivery_us; /* Monotonic; 0: none yet. */
	bool down;                /* No broker can be reached. */
} wh_kafka_stats;

/* librdkafka's statistics: kafka_stats.c */
typedef struct wh_kafka_watch {
	bool known;                      /* librdkafka has sent statistics. */
	int64_t connected;               /* Brokers with a connection. */
	int64_t queued;                  /* Messages that wait in librdkafka. */
	int64_t rtt_us;                  /* 99th percentile of the slowest broker. */
	int64_t sent;                    /* Bytes, since the opening. */
	int64_t retries;                 /* Requests sent again, since the opening. */
	int64_t last_sent, last_retries; /* Counters of this client. */
} wh_kafka_watch;

void wh_kafka_watch_take(wh_kafka_watch *watch, const char *text);
void wh_kafka_watch_renew(wh_kafka_watch *watch); /* Call it when a client ends. */
void wh_kafka_stats_get(const wherry_publisher *pub, wh_kafka_stats *out);
size_t wh_kafka_numbers(const wherry_publisher *pub, wh_number *out);

/* ---- topics and partitions: kafka_places.c ---- */

typedef struct wh_kafka_place {
	struct wh_kafka_place *next; /* In its bucket. */
	uint64_t hash;               /* Of the topic and the partition. */
	int64_t taken_us;            /* Last delivery, monotonic; 0: none. */
	bool looked;                 /* A whole topic: it was looked at. */

	/* Of a whole topic. */
	int failures;          /* Conditions in a row; 0: the topic is not held. */
	int rejected;          /* Messages rejected in a row. */
	int64_t held_until_us; /* When a message may try the topic again. */
	int64_t probe;         /* Id of the message that tries it now; 0: none. */
	char why[200];         /* The condition that it met last; cut. */
} wh_kafka_place;

enum {
	WH_KAFKA_PLACES = 512,
	WH_KAFKA_PLACES_MOST = 16384,
	/* Longest pause until a message tries a topic, or all of Kafka, again. */
	WH_KAFKA_TRY_MOST_US = 4000000
};

typedef struct wh_kafka_places {
	wh_kafka_place *buckets[WH_KAFKA_PLACES];
	size_t n; /* WH_KAFKA_PLACES_MOST, and one more, at most. */
} wh_kafka_places;

/* The partition took a message.  True: its topic was held until now. */
bool wh_kafka_place_took(wh_kafka_places *all, const char *topic, int32_t partition,
			 int64_t now);

/* Must the topic be looked at?  True the first time. */
bool wh_kafka_place_is_new(wh_kafka_places *all, const char *topic);

/* Did this partition take a message after since_us?  RD_KAFKA_PARTITION_UA: any partition
 * of the topic. */
bool wh_kafka_place_took_since(wh_kafka_places *all, const char *topic, int32_t partition,
			       int64_t since_us);

/* A message met a condition of the topic, which why describes: hold the topic.  True: it was not held
 * before. */
bool wh_kafka_place_failed(wh_kafka_places *all, const char *topic, int64_t id,
			   const char *why, int64_t now);

/* Why the topic is held. */
const char *wh_kafka_place_why(wh_kafka_places *all, const char *topic);

/* How long a message for this topic must wait; 0: it may try the topic, and others wait
 * for limit_us at most, until it has an answer. */
int64_t wh_kafka_place_rest_us(wh_kafka_places *all, const char *topic, int64_t id,
			       int64_t now, int64_t limit_us);

/* The message came back without an answer: another message may try the topic. */
void wh_kafka_place_untried(wh_kafka_places *all, const char *topic, int64_t id);

typedef enum wh_kafka_blame {
	WH_KAFKA_BLAME_MESSAGE, /* The topic took others: the message is rejected. */
	WH_KAFKA_BLAME_EITHER,  /* The topic took none yet: an attempt is counted. */
	WH_KAFKA_BLAME_TOPIC    /* The topic rejects all: hold it. */
} wh_kafka_blame;

/* A message was rejected, and its topic may reject every message: whose fault is it? */
wh_kafka_blame wh_kafka_place_rejected(wh_kafka_places *all, const char *topic);
void wh_kafka_places_clear(wh_kafka_places *all);

/* ---- topics that are to be made: kafka_topics.c ---- */

typedef struct wh_kafka_topic wh_kafka_topic;

/* Can messages be sent to this topic?  False: brokers were asked to make it, and their
 * answer arrives as an event. */
bool wh_kafka_topic_ready(wh_kafka_topic **topics, const char *name,
			  const wh_kafka_settings *set, wh_kafka_client *client);

/* Process the answer.  Messages for the topic can be sent now even if it was not made:
 * they fail with the reason.  Writes what went wrong to out_why; "": nothing. */
void wh_kafka_topic_made(wh_kafka_topic *topics, rd_kafka_event_t *event, char *out_why,
			 size_t cap);
/* Forget topics without an answer, when their client ends. */
void wh_kafka_topics_forget(wh_kafka_topic **topics);
void wh_kafka_topics_clear(wh_kafka_topic **topics);

/* ---- can a topic lose messages: kafka_safety.c ---- */

typedef struct wh_kafka_safety {
	int replicas;     /* Of the partition that has most. */
	bool one_in_sync; /* min.insync.replicas is 1. */
	bool unclean;     /* unclean.leader.election.enable is true. */
} wh_kafka_safety;

/* Take in one setting of the topic.  value may be NULL. */
void wh_kafka_safety_read(wh_kafka_safety *safety, const char *name, const char *value);
bool wh_kafka_is_safe(const wh_kafka_safety *safety);

/* Ask brokers for the settings of a topic, a second at most.  replicas is not asked for. */
rd_kafka_resp_err_t wh_kafka_safety_ask(rd_kafka_t *rk, const char *topic,
					wh_kafka_safety *safety);

/* The topic is not safe: write that as a notice (see wh_publisher_driver), or to the log. */
void wh_kafka_safety_show(const wh_kafka_safety *safety, const char *topic, char *out,
			  size_t cap);
void wh_kafka_safety_log(const wh_kafka_safety *safety, const wh_env *env,
			 const char *brokers, const char *topic);

/* ---- topics are looked at: kafka_look.c ---- */

enum { WH_KAFKA_NOTICE = 200 };

/* Start a thread that asks for topics.  brokers: borrowed until the client leaves.  NULL: out of
 * memory. */
wh_kafka_look *wh_kafka_look_new(rd_kafka_t *rk, const char *brokers, const wh_env *env);

/* Ask whether the topic can lose messages, and log a warning if so.  named: the URL names
 * it, so log a warning also if it does not exist. */
void wh_kafka_look_at(wh_kafka_look *look, const char *topic, bool named);

/* Take a notice of the topics that can lose messages.  False: none was found since the last one. */
bool wh_kafka_look_notice(wh_kafka_look *look, char out[WH_KAFKA_NOTICE]);
void wh_kafka_look_leave(wh_kafka_look *look); /* After this nothing is logged. */
void wh_kafka_look_end(wh_kafka_look *look);   /* May wait a second for an answer. */

/* ---- the publisher ---- */

typedef struct wh_kafka {
	wherry_publisher base;
	const wh_env *env;
	wh_kafka_settings set;
	wh_kafka_exits *exits;
	wh_kafka_client *client; /* NULL: the next submit opens one. */
	wh_flights open;         /* Messages without a verdict, in order. */
	wh_flights done;         /* Messages with a verdict, for collect. */
	size_t handed;           /* Open messages that librdkafka has. */
	wh_kafka_keys keys;
	wh_kafka_places places;
	wh_kafka_topic *topics; /* Topics that create= has asked for. */
	bool looked;            /* The topic in the URL was looked for. */
	/* Take nothing until the relay has collected the receipts in done. */
	bool refusing;
	/* Messages up to this id get a separate request each; 0: none. */
	int64_t alone_until;
	bool alone;   /* The client sends each message alone. */
	bool granted; /* A lease is known. */
	bool served;  /* This client has delivered a message. */
	bool doubted; /* A message was sent again, and that was logged. */
	/* failing: an episode has begun, see kafka.c.  purged: messages in flight were
	 * taken back. */
	bool failing, purged;
	int64_t give_up_us;         /* When the current step of the episode ends. */
	int64_t throttled_until_us; /* When brokers let the client go on. */
	/* How long the message that was delivered last was in flight, without delays that
	 * brokers asked for. */
	int64_t waited_us;
	int64_t late_us;    /* Deadlines up to this time were missed; 0: none. */
	wherry_error error; /* Of the destination; returned after all receipts. */
	char why[160];      /* The last error that was reported; "": none. */
	/* Brokers that are down (stats.down) are reported from this time on. */
	int64_t trouble_us;
	bool trouble_logged;
	bool silence_logged; /* That nothing was acknowledged was logged since the last delivery. */
	char trouble[240]; /* Reason why messages in flight have no receipts. */
	char notice[WH_KAFKA_NOTICE]; /* A topic that can lose messages. */
	wh_kafka_stats stats;
	wh_kafka_watch watch;
} wh_kafka;

/* Visit the open messages in order; NULL: there are no more. */
static inline wh_kafka_job *wh_kafka_first(const wh_kafka *p)
{
	return (wh_kafka_job *)p->open.head;
}

static inline wh_kafka_job *wh_kafka_next(const wh_kafka_job *job)
{
	return (wh_kafka_job *)job->flight.next;
}

/* Error of a message that no broker acknowledged and that could not be sent again at
 * once. */
#define WH_KAFKA_UNACKNOWLEDGED RD_KAFKA_RESP_ERR__RETRY

/* kafka_report.c: the destination failed.  The first error is kept. */
void wh_kafka_break_off(wh_kafka *p, wherry_code code, int native, const char *why,
			const char *advice);
rd_kafka_resp_err_t wh_kafka_hand_over(wh_kafka *p, wh_kafka_job *job, wherry_error *why);
void wh_kafka_serve(wh_kafka *p); /* Process all events that wait. */

/* kafka_verdict.c */
wherry_code wh_kafka_code_of(wh_kafka_meaning meaning);
void wh_kafka_describe(rd_kafka_resp_err_t code, char *out, size_t cap);
void wh_kafka_describe_of(const wh_kafka *p, const wherry_message *msg,
			  rd_kafka_resp_err_t code, char *out, size_t cap);
void wh_kafka_answer(wh_kafka *p, wh_kafka_job *job, wherry_verdict verdict,
		     const char *reason);
/* Did brokers take a message lately? */
bool wh_kafka_takes_others(const wh_kafka *p);
/* Hold the topic of a message that met a condition of it. */
void wh_kafka_hold(wh_kafka *p, wh_kafka_job *job, const char *topic, const char *why);
void wh_kafka_fail(wh_kafka *p); /* Begin an episode; see kafka.c. */
void wh_kafka_fail_step(wh_kafka *p, int64_t now);
void wh_kafka_miss_deadline(wh_kafka *p, int64_t now);
void wh_kafka_leave_client(wh_kafka *p);

#endif
