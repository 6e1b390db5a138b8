/*
 * The meaning of the errors that a server answers to XADD, and the verdict on the message.
 */
#include "publish/redis/redis.h"

#include <stdio.h>
#include <string.h>

#include "publish/parts.h"

enum { HELD_US = 2000000, BUSY_US = 1000000 };

typedef enum kind {
	BUSY,     /* The server takes nothing now. */
	PLACE,    /* The stream takes nothing. */
	RIGHT,    /* The same, because a right is missing. */
	LEAVE,    /* Another server may be the master. */
	MOVED,    /* Another node has the slot. */
	ASKED,    /* It has the stream. */
	REJECTED, /* The message will never be taken. */
	OTHER     /* This message was refused.  The relay sees if others are, too. */
} kind;

static const struct {
	const char *begins;
	kind kind;
	const char *advice;
} errors[] = {
	{"OOM ", BUSY, "raise maxmemory, trim streams (redis.max_length) or delete keys"},
	{"MISCONF ", BUSY, "the server cannot save to its disk: see its log"},
	{"NOREPLICAS ", BUSY, "fewer replicas are connected than min-replicas-to-write"},
	{"LOADING ", BUSY, "it reads its data since it was started"},
	{"BUSY ", BUSY, "a script runs there"},
	{"MASTERDOWN ", LEAVE, "it is a replica"},
	{"READONLY ", LEAVE, "it is a replica"},
	{"NOAUTH ", LEAVE, "it has forgotten the password"},
	{"CLUSTERDOWN ", PLACE, "the cluster has no node for this stream now"},
	{"TRYAGAIN ", PLACE, "the stream moves to another node"},
	{"MOVED ", MOVED, NULL},
	{"ASK ", ASKED, NULL},
	{"WRONGTYPE ", PLACE,
	 "the key is not a stream: rename it, or choose another "
	 "name with ?stream="},
	{"NOPERM ", RIGHT, NULL}, /* See give_rights(). */
	{"ERR The stream has exhausted", PLACE, "start another stream"},
	{"ERR Protocol error", REJECTED,
	 "raise the server's proto-max-bulk-len, " WH_OR_BODY_STORE},
	{"ERR Elements are too large", REJECTED, "send less, " WH_OR_BODY_STORE},
	{"ERR unknown command", PLACE, "the server lacks it, or it was renamed there"},
};

static kind kind_of(const char *error, const char **out_advice)
{
	/* EXECABORT … because of: OOM command not allowed…  The first error says more. */
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (strncmp(error, errors[i].begins, strlen(errors[i].begins)) == 0) {
			*out_advice = errors[i].advice;
			return errors[i].kind;
		}
	*out_advice = NULL;
	return OTHER;
}

/* The command that gives the user what it lacks. */
static void give_rights(const char *user, const char *stream, char *out, size_t cap)
{
	(void)snprintf(out, cap,
		       "`ACL SETUSER %.30s +xadd +multi +exec ~%.60s` permits it",
		       user ? user : "default", stream);
}

wh_redis_meaning wh_redis_judge(const char *error, const char *stream, const char *user,
				bool in_cluster, wh_redis_verdict *out)
{
	const char *advice;
	kind means = kind_of(error, &advice);
	char place[80], rights[160];

	*out = (wh_redis_verdict){.verdict = WHERRY_RETRY};
	(void)snprintf(place, sizeof(place), "stream '%.60s'", stream);
	if (means == RIGHT) {
		give_rights(user, stream, rights, sizeof(rights));
		advice = rights;
	}
	wh_put_answer(out->reason, sizeof(out->reason), place, error, advice);
	switch (means) {
	case MOVED:
		return WH_REDIS_MOVED;
	case ASKED:
		return WH_REDIS_ASKED;
	case BUSY:
	case LEAVE:
		if (in_cluster) {
			out->held = true;
			out->retry_after_us = HELD_US;
			return WH_REDIS_ANSWERED;
		}
		out->verdict = WHERRY_THROTTLED;
		out->retry_after_us = BUSY_US;
		wh_put_answer(out->reason, sizeof(out->reason), NULL, error, advice);
		return means == BUSY ? WH_REDIS_BUSY : WH_REDIS_LEAVE;
	case PLACE:
	case RIGHT:
		out->held = true;
		out->denied = means == RIGHT;
		out->retry_after_us = HELD_US;
		break;
	case REJECTED:
		out->verdict = WHERRY_REJECTED;
		break;
	case OTHER:
		break;
	}
	return WH_REDIS_ANSWERED;
}
