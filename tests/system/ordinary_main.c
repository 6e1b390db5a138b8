/*
 * Write messages through the library, for ordinary.sh: ordinary_main MODEL URL TABLE <fields
 *
 * A field ends in NUL and begins with '=', or is "-": absent.  A message has eight fields:
 * message id, topic, aggregate type, aggregate id, key, headers, trace id, body.  A queue takes the
 * correlation id from the third field and the address of answers from the fourth.  A delayed
 * queue takes the name of the queue from the topic.  An inbox takes the message id, and must answer
 * "new" and then "seen".
 *
 * ordinary_main MODEL URL TABLE take receives the messages of a queue or a delayed queue, or consumes those of
 * the subscription "consumers" of an outbox (MODEL is subscription), and prints their fields.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

enum { FIELDS = 8 };

typedef struct place {
	const char *model, *table;
	wherry_db *db;
	wherry_outbox *outbox;
	wherry_queue *queue;
	wherry_inbox *inbox;
} place;

/* Was it new, and then seen? */
static wherry_code accept_twice(const place *p, const char *id, wherry_error *err)
{
	bool is_new[2] = {false, false};
	wherry_code code = wherry_db_begin(p->db, err);

	for (int i = 0; code == WHERRY_OK && i < 2; i++)
		code = wherry_inbox_accept(p->inbox, "c", id, &is_new[i], err);
	if (code == WHERRY_OK)
		code = wherry_db_commit(p->db, err);
	if (code == WHERRY_OK && (!is_new[0] || is_new[1]))
		(void)fprintf(stderr, "%s: %d, then %d\n", id, is_new[0], is_new[1]);
	return code;
}

static wherry_code offer(const place *p, char **f, wherry_error *err)
{
	wherry_delayed_message msg = WHERRY_DELAYED_MESSAGE(.key = f[4], .body = f[7],
							    .body_len = WHERRY_TEXT);
	wherry_delayed *delayed = NULL;
	wherry_code code =
		wherry_delayed_open(p->db, p->table, f[1], NULL, &delayed, err);

	if (code == WHERRY_OK)
		code = wherry_delayed_offer(delayed, &msg, NULL, err);
	wherry_delayed_close(delayed);
	return code;
}

static wherry_code write_one(const place *p, char **f, wherry_error *err)
{
	wherry_message msg =
		WHERRY_MESSAGE(.message_id = f[0], .topic = f[1], .aggregate_type = f[2],
			       .aggregate_id = f[3], .key = f[4], .headers = f[5],
			       .trace_id = f[6], .body = f[7], .body_len = WHERRY_TEXT);
	wherry_queue_message sent =
		WHERRY_QUEUE_MESSAGE(.message_id = f[0], .topic = f[1],
				     .correlation_id = f[2], .reply_to = f[3],
				     .headers = f[5], .body = f[7],
				     .body_len = WHERRY_TEXT);

	if (p->outbox)
		return wherry_outbox_enqueue(p->outbox, &msg, WHERRY_OWN_TRANSACTION,
					     NULL, err);
	if (p->queue)
		return wherry_queue_send(p->queue, &sent, NULL, err);
	if (p->inbox)
		return accept_twice(p, f[0], err);
	return offer(p, f, err);
}

static wherry_code open_place(place *p, const char *url, wherry_error *err)
{
	wherry_code code = wherry_db_open(url, NULL, &p->db, err);

	if (code == WHERRY_OK && strcmp(p->model, "outbox") == 0)
		code = wherry_outbox_open(p->db, p->table, &p->outbox, err);
	if (code == WHERRY_OK && strcmp(p->model, "subscription") == 0)
		code = wherry_subscription_open(p->db, p->table, "consumers", &p->outbox,
						err);
	if (code == WHERRY_OK && strcmp(p->model, "queue") == 0)
		code = wherry_queue_open(p->db, p->table, &p->queue, err);
	if (code == WHERRY_OK && strcmp(p->model, "inbox") == 0)
		code = wherry_inbox_open(p->db, p->table, &p->inbox, err);
	return code;
}

static void put(const char *text, size_t len)
{
	(void)fwrite(text ? text : "", 1, len, stdout);
	(void)putchar(0);
}

static void put_text(const char *text)
{
	put(text, text ? strlen(text) : 0);
}

static wherry_code put_received(void *ctx, const wherry_queue_message *msg)
{
	(void)ctx;
	put_text(msg->message_id);
	put_text(msg->topic);
	put_text(msg->correlation_id);
	put_text(msg->reply_to);
	put_text(msg->headers);
	put(msg->body, msg->body_len);
	put_text(NULL);
	return WHERRY_OK;
}

static wherry_code put_polled(void *ctx, const wherry_delayed_message *msg)
{
	(void)ctx;
	for (int i = 0; i < 5; i++)
		put_text(NULL);
	put(msg->body, msg->body_len);
	put_text(msg->key);
	return WHERRY_OK;
}

static wherry_code put_consumed(void *ctx, const wherry_row *row)
{
	const wherry_message *msg = row->message;

	(void)ctx;
	put_text(msg->message_id);
	put_text(msg->topic);
	put_text(msg->aggregate_type);
	put_text(msg->aggregate_id);
	put_text(msg->headers);
	put(msg->body, msg->body_len);
	put_text(msg->key);
	put_text(msg->trace_id);
	return WHERRY_OK;
}

/* Receive all messages and print their fields: message id, topic, correlation id, reply-to,
 * headers, body, key; of an outbox its aggregate and the trace id, too. */
static wherry_code take(const place *p, wherry_error *err)
{
	wherry_receive_options receive =
		WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_LEASE, .limit = 10000);
	wherry_poll_options poll = WHERRY_POLL_OPTIONS(.limit = 10000);
	wherry_delayed *delayed = NULL;
	wherry_code code;

	if (p->outbox)
		return wherry_subscription_consume(p->outbox, 100000, put_consumed, NULL,
						   NULL, err);
	if (p->queue)
		return wherry_queue_receive(p->queue, &receive, put_received, NULL, NULL,
					    err);
	code = wherry_delayed_open(p->db, p->table, "q", NULL, &delayed, err);
	if (code == WHERRY_OK)
		code = wherry_delayed_poll(delayed, &poll, put_polled, NULL, NULL, err);
	wherry_delayed_close(delayed);
	return code;
}

int main(int argc, char **argv)
{
	wherry_error err = WHERRY_ERROR_INIT;
	place p = {.model = argc > 3 ? argv[1] : "", .table = argc > 3 ? argv[3] : ""};
	char *line[FIELDS] = {NULL}, *value[FIELDS] = {NULL};
	size_t size[FIELDS] = {0};
	wherry_code code = open_place(&p, argc > 3 ? argv[2] : "", &err);
	int n = 0, refused = 0;

	if (code == WHERRY_OK && argc == 5)
		code = take(&p, &err);
	while (code == WHERRY_OK && argc == 4 &&
	       getdelim(&line[n], &size[n], 0, stdin) > 0) {
		value[n] = line[n][0] == '=' ? line[n] + 1 : NULL;
		if (++n < FIELDS)
			continue;
		n = 0;
		if (write_one(&p, value, &err) != WHERRY_OK) {
			(void)fprintf(stderr, "%s\n", err.message);
			refused++;
		}
	}
	if (code != WHERRY_OK)
		(void)fprintf(stderr, "%s\n", err.message);
	for (int i = 0; i < FIELDS; i++)
		free(line[i]);
	wherry_outbox_close(p.outbox);
	wherry_queue_close(p.queue);
	wherry_inbox_close(p.inbox);
	wherry_db_close(p.db);
	return code != WHERRY_OK || refused;
}
