/*
 * Connects to a broker and logs in.  These calls wait; only the client's thread makes
 * them, while it reads no message.
 */
#include "publish/amqp/amqp.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <openssl/ssl.h>

#include <wherry/version.h>

#include "publish/certificate.h"

enum { LOGIN_S = 10 };

/* ---- errors ---- */

static bool is_address(const char *host)
{
	return !host[strspn(host, "0123456789.")] || strchr(host, ':');
}

wherry_code wh_amqp_closed(int code, amqp_bytes_t text, wherry_error *err)
{
	const char *advice = NULL;
	char said[256];
	wherry_code result = WHERRY_CLOSED;

	(void)snprintf(said, sizeof(said), "%.*s", (int)text.len,
		       text.len ? (const char *)text.bytes : "");
	if (code == AMQP_ACCESS_REFUSED) {
		advice = strstr(said, "EXTERNAL")
				 ? "add a user with the name that the broker reads from "
				   "the certificate (ssl_cert_login_from)"
				 : "check user and password of the URL; the user guest "
				   "may only connect from the broker's own machine";
		result = WHERRY_DENIED;
	} else if (code == AMQP_NOT_ALLOWED) {
		advice = "check the vhost, which stands behind the host in the URL, "
			 "and the user's permissions on it";
		result = WHERRY_DENIED;
	}
	return wh_fail_answer(err, result, code, "amqp: the broker says", said, advice);
}

static wherry_code tell(amqp_rpc_reply_t reply, const char *doing, wherry_error *err)
{
	if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
	    reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
		const amqp_connection_close_t *m = reply.reply.decoded;

		return wh_amqp_closed(m->reply_code, m->reply_text, err);
	}
	if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
	    reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
		const amqp_channel_close_t *m = reply.reply.decoded;

		return wh_amqp_closed(m->reply_code, m->reply_text, err);
	}
	if (reply.library_error == AMQP_STATUS_BROKER_UNSUPPORTED_SASL_METHOD)
		return wh_fail_native(
			err, WHERRY_DENIED, reply.library_error,
			"amqp: the broker does not offer this auth_mechanism: for "
			"external, turn on its plugin rabbitmq_auth_mechanism_ssl and add "
			"EXTERNAL to auth_mechanisms");
	return wh_fail_native(err, WHERRY_CLOSED, reply.library_error, "amqp: %s: %s",
			      doing, amqp_error_string2(reply.library_error));
}

/* ---- TLS ---- */

/* The check of a chain; arg receives OpenSSL's number of its error. */
static int verify_chain(X509_STORE_CTX *chain, void *arg)
{
	int fine = X509_verify_cert(chain);

	*(int *)arg = X509_STORE_CTX_get_error(chain);
	return fine;
}

/* librabbitmq's own check of names does not know certificates of addresses, so OpenSSL
 * checks the name with the chain. */
static wherry_code set_tls(const wh_amqp_settings *set, amqp_socket_t *socket,
			   const char *host, int *verdict, wherry_error *err)
{
	SSL_CTX *tls = amqp_ssl_socket_get_context(socket);
	X509_VERIFY_PARAM *names = SSL_CTX_get0_param(tls);

	amqp_ssl_socket_set_verify_peer(socket, 0);
	amqp_ssl_socket_set_verify_hostname(socket, 0);
	if (set->cert && amqp_ssl_socket_set_key(socket, set->cert, set->key) != 0)
		return wh_fail(err, WHERRY_INVALID,
			       "amqp: certfile and keyfile are not a certificate and "
			       "its private key");
	if (!set->verify)
		return WHERRY_OK;
	if (set->ca_file ? SSL_CTX_load_verify_locations(tls, set->ca_file, NULL) != 1
			 : SSL_CTX_set_default_verify_paths(tls) != 1)
		return wh_fail(err, WHERRY_INVALID,
			       "amqp: cacertfile has no certificate");
	if (is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(names, host) != 1
			     : X509_VERIFY_PARAM_set1_host(names, host, 0) != 1)
		return wh_oom(err);
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(tls, verify_chain, verdict);
	return WHERRY_OK;
}

static wherry_code tell_unconnected(const wh_amqp_host *host, int status, int verdict,
				    wherry_error *err)
{
	const char *cause =
		verdict ? wh_certificate_cause(verdict, "its certificate is not trusted: "
							"name the authority's "
							"certificate in cacertfile=")
			: NULL;

	if (!cause && status == AMQP_STATUS_SSL_CONNECTION_FAILED)
		cause = "TLS failed: does the broker speak TLS on this port?";
	if (!cause && status == AMQP_STATUS_SOCKET_ERROR)
		cause = "no broker listens there, or it cannot be reached";
	return wh_fail_native(err, WHERRY_CLOSED, status,
			      "amqp: cannot connect to %.80s:%d: %s", host->name,
			      host->port, cause ? cause : amqp_error_string2(status));
}

/* ---- connecting ---- */

static amqp_table_entry_t yes(const char *name)
{
	amqp_table_entry_t entry = {.key = amqp_cstring_bytes(name),
				    .value = {.kind = AMQP_FIELD_KIND_BOOLEAN}};

	entry.value.value.boolean = 1;
	return entry;
}

static wherry_code tell_no_login(const wh_amqp_settings *set, amqp_rpc_reply_t reply,
				 wherry_error *err)
{
	const int code = reply.library_error;

	/* With TLS 1.3 the broker judges the certificate when the handshake is over. */
	if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && set->cert &&
	    (code == AMQP_STATUS_SSL_ERROR || code == AMQP_STATUS_SOCKET_ERROR ||
	     code == AMQP_STATUS_CONNECTION_CLOSED))
		return wh_fail_native(
			err, WHERRY_CLOSED, code,
			"amqp: the broker ended the connection (%s): perhaps it refuses "
			"the certificate of certfile: it must be of an authority that "
			"the broker trusts",
			amqp_error_string2(code));
	return tell(reply, "the broker let nobody in", err);
}

static wherry_code log_in(wh_amqp_client *c, wherry_error *err)
{
	/* The certificate says who logs in.  librabbitmq cannot send an empty text. */
	static const char no_identity[] = " ";
	const wh_amqp_settings *set = &c->set;
	amqp_table_entry_t abilities[] = {yes("publisher_confirms"), yes("basic.nack"),
					  yes("connection.blocked"),
					  yes("authentication_failure_close")};
	amqp_table_entry_t about[] = {{.key = amqp_cstring_bytes("connection_name"),
				       .value = {.kind = AMQP_FIELD_KIND_UTF8}},
				      {.key = amqp_cstring_bytes("version"),
				       .value = {.kind = AMQP_FIELD_KIND_UTF8}},
				      {.key = amqp_cstring_bytes("capabilities"),
				       .value = {.kind = AMQP_FIELD_KIND_TABLE}}};
	amqp_table_t table = {.num_entries = sizeof(about) / sizeof(*about),
			      .entries = about};
	const struct timeval most = {LOGIN_S, 0};
	amqp_rpc_reply_t reply;

	about[0].value.value.bytes = amqp_cstring_bytes("wherry");
	about[1].value.value.bytes = amqp_cstring_bytes(WHERRY_VERSION);
	about[2].value.value.table.num_entries = sizeof(abilities) / sizeof(*abilities);
	about[2].value.value.table.entries = abilities;
	(void)amqp_set_handshake_timeout(c->conn, &most);
	(void)amqp_set_rpc_timeout(c->conn, &most);
	if (set->external)
		reply = amqp_login_with_properties(
			c->conn, set->vhost, 0, WH_AMQP_FRAME_MAX, set->heartbeat_s,
			&table, AMQP_SASL_METHOD_EXTERNAL, no_identity);
	else
		reply = amqp_login_with_properties(
			c->conn, set->vhost, 0, WH_AMQP_FRAME_MAX, set->heartbeat_s,
			&table, AMQP_SASL_METHOD_PLAIN, set->user, set->password);
	return reply.reply_type == AMQP_RESPONSE_NORMAL ? WHERRY_OK
							: tell_no_login(set, reply, err);
}

wherry_code wh_amqp_open_channel(wh_amqp_client *c, wherry_error *err)
{
	amqp_rpc_reply_t reply;

	if (!amqp_channel_open(c->conn, WH_AMQP_CHANNEL) ||
	    !amqp_confirm_select(c->conn, WH_AMQP_CHANNEL)) {
		reply = amqp_get_rpc_reply(c->conn);
		return tell(reply, "no channel with confirms", err);
	}
	amqp_maybe_release_buffers(c->conn);
	return WHERRY_OK;
}

/* The calls that wait can be interrupted from now on.  False: the relay has left. */
static bool may_go_on(wh_amqp_client *c)
{
	bool may;

	(void)pthread_mutex_lock(&c->lock);
	c->fd = dup(amqp_get_sockfd(c->conn));
	may = !c->leaving && !c->reset;
	(void)pthread_mutex_unlock(&c->lock);
	return may;
}

static wherry_code connect_to(wh_amqp_client *c, const wh_amqp_host *host,
			      wherry_error *err)
{
	const struct timeval most = {WH_AMQP_CONNECT_S, 0};
	amqp_socket_t *socket;
	wherry_code code = WHERRY_OK;
	int status, verdict = 0;

	c->conn = amqp_new_connection();
	if (!c->conn)
		return wh_oom(err);
	socket = c->set.secure ? amqp_ssl_socket_new(c->conn)
			       : amqp_tcp_socket_new(c->conn);
	if (!socket)
		return wh_oom(err);
	if (c->set.secure)
		code = set_tls(&c->set, socket, host->name, &verdict, err);
	if (code != WHERRY_OK)
		return code;
	status = amqp_socket_open_noblock(socket, host->name, host->port, &most);
	if (status != AMQP_STATUS_OK)
		return tell_unconnected(host, status, verdict, err);
	if (!may_go_on(c))
		return wh_fail(err, WHERRY_CLOSED, "amqp: the destination was closed");
	code = log_in(c, err);
	return code == WHERRY_OK ? wh_amqp_open_channel(c, err) : code;
}

void wh_amqp_disconnect(wh_amqp_client *c)
{
	(void)pthread_mutex_lock(&c->lock);
	if (c->fd >= 0)
		(void)close(c->fd);
	c->fd = -1;
	c->blocked = false;
	(void)pthread_mutex_unlock(&c->lock);
	if (c->conn)
		(void)amqp_destroy_connection(c->conn);
	c->conn = NULL;
	c->back.stage = WH_AMQP_NONE;
	memset(c->proven, 0, sizeof(c->proven));
}

static bool was_left(wh_amqp_client *c)
{
	bool left;

	(void)pthread_mutex_lock(&c->lock);
	left = c->leaving || c->reset;
	(void)pthread_mutex_unlock(&c->lock);
	return left;
}

wherry_code wh_amqp_connect(wh_amqp_client *c, wherry_error *err)
{
	wherry_code code = WHERRY_CLOSED;

	for (size_t i = 0; i < c->set.n_hosts; i++) {
		code = connect_to(c, &c->set.hosts[c->host % c->set.n_hosts], err);
		if (code == WHERRY_OK)
			return code;
		wh_amqp_disconnect(c);
		c->host++;
		if (code != WHERRY_CLOSED || was_left(c))
			return code;
	}
	return code;
}
