/*
 * To RabbitMQ: Wherry's relay, and librabbitmq alone, which publishes the same bodies as
 * persistent messages from memory, with confirms and a window of as many as a relay has.
 * The broker is a private one in a process of its own.
 */
#include "bench.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { WINDOW = 4000, READ_EACH = 64 };

typedef struct broker {
	bench_server server;
	int port;
	char url[64];
} broker;

/* ---- librabbitmq ---- */

static amqp_connection_state_t connect_to(const broker *b)
{
	amqp_connection_state_t conn = amqp_new_connection();

	if (amqp_socket_open(amqp_tcp_socket_new(conn), "127.0.0.1", b->port) !=
		    AMQP_STATUS_OK ||
	    amqp_login(conn, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest")
			    .reply_type != AMQP_RESPONSE_NORMAL ||
	    !amqp_channel_open(conn, 1) || !amqp_confirm_select(conn, 1))
		bench_die("RabbitMQ does not answer");
	return conn;
}

static broker start_broker(const char *queue)
{
	char line[300];
	broker b = {.server = bench_serve(BENCH_RABBITMQ, line, sizeof(line))};
	amqp_connection_state_t conn;

	b.port = (int)strtol(line, NULL, 10);
	(void)snprintf(b.url, sizeof(b.url), "amqp://127.0.0.1:%d", b.port);
	conn = connect_to(&b);
	if (!amqp_queue_declare(conn, 1, amqp_cstring_bytes(queue), 0, 1, 0, 0,
				amqp_empty_table))
		bench_die("RabbitMQ makes no queue");
	(void)amqp_destroy_connection(conn);
	return b;
}

static void publish(amqp_connection_state_t conn, const wherry_message *msg, int64_t id)
{
	amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG |
							AMQP_BASIC_MESSAGE_ID_FLAG,
					      .delivery_mode = 2};
	amqp_bytes_t body = {.len = msg->body_len};
	char text[24];

	(void)snprintf(text, sizeof(text), "%lld", (long long)id);
	properties.message_id = amqp_cstring_bytes(text);
	memcpy(&body.bytes, &msg->body, sizeof(body.bytes)); /* It is not const there. */
	if (amqp_basic_publish(conn, 1, amqp_empty_bytes, amqp_cstring_bytes(msg->topic),
			       1, 0, &properties, body) != AMQP_STATUS_OK)
		bench_die("RabbitMQ takes no message");
}

/* Read confirms, waiting for at most this long.  Returns the last tag up to which all are
 * confirmed: the broker confirms the messages of one queue in order. */
static int64_t read_confirms(amqp_connection_state_t conn, int64_t done, int wait_s)
{
	struct timeval most = {wait_s, 0};
	amqp_frame_t frame;

	while (amqp_simple_wait_frame_noblock(conn, &frame, &most) == AMQP_STATUS_OK) {
		if (frame.frame_type != AMQP_FRAME_METHOD ||
		    frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
			bench_die("RabbitMQ refuses a message");
		done = (int64_t)((amqp_basic_ack_t *)frame.payload.method.decoded)
			       ->delivery_tag;
		amqp_maybe_release_buffers(conn);
		most.tv_sec = 0;
	}
	return done;
}

/* ---- both sides ---- */

void bench_amqp_alone(const bench_job *job, double *out)
{
	const bench_load *load = bench_load_open(job);
	broker b = start_broker(bench_load_get(load, 0).topic);
	amqp_connection_state_t conn = connect_to(&b);
	int64_t began = bench_now(), sent = 0, done = 0;

	while (done < job->messages) {
		if (sent < job->messages && sent - done < WINDOW) {
			wherry_message msg = bench_load_get(load, sent);

			publish(conn, &msg, ++sent);
			if (sent % READ_EACH == 0)
				done = read_confirms(conn, done, 0);
		} else {
			done = read_confirms(conn, done, 1);
		}
	}
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	bench_serve_end(&b.server);
}

void bench_amqp_wherry(const bench_job *job, double *out)
{
	broker b = start_broker(bench_load_get(bench_load_open(job), 0).topic);
	bench_job there = *job;

	there.to = b.url;
	bench_wherry_drain(&there, out);
	bench_serve_end(&b.server);
}
