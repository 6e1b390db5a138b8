/*
 * s3://BUCKET/PREFIX: bodies as objects of S3, or of a server that speaks its protocol.
 *
 *     s3.c              settings, and PUT requests over libcurl, which signs them
 *     s3_credentials.c  the keys, from the environment or from a file
 *     s3_answer.c       what an answer means, in words
 */
#ifndef WH_PUBLISH_S3_H
#define WH_PUBLISH_S3_H

#include <curl/curl.h>

#include "publish/bodies/bodies.h"

/* ---- s3_credentials.c ---- */

typedef struct wh_s3_keys {
	wh_buf id, secret, token; /* token is empty unless the keys are temporary. */
} wh_s3_keys;

#define WH_S3_KEYS_INIT                                                                  \
	{                                                                                \
		WH_BUF_INIT(1024), WH_BUF_INIT(1024), WH_BUF_INIT(65536)                 \
	}

/*
 * Read the keys again for each request, since a file may have new ones.
 *
 * @param source  The setting s3.credentials; "": the variables AWS_….
 */
wherry_code wh_s3_keys_read(const char *source, wh_s3_keys *out, wherry_error *err);
/* Refuse what is not a source of keys. */
wherry_code wh_s3_keys_check(const char *source, wherry_error *err);
void wh_s3_keys_clear(wh_s3_keys *keys);

/* ---- s3_answer.c ---- */

enum { WH_S3_TEXT = 2048 }; /* Bytes kept of an answer's body. */

typedef struct wh_s3_answer {
	CURLcode result;
	long status;       /* 0: no answer. */
	const char *error; /* libcurl's text; "": none. */
	const char *text;  /* Beginning of the body. */
	const char *
		region; /* Region of the bucket, as the answer says; NULL: it does not. */
	long certificate; /* OpenSSL's result for the server's certificate. */
	const char *bucket;
	const char *name; /* Of the object, with its prefix. */
	const char *own_region;
} wh_s3_answer;

/* OK if the object is stored; otherwise the error says why not, and what to do. */
wherry_code wh_s3_judge(const wh_s3_answer *answer, wherry_error *err);

#endif
