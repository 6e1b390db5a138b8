/*
 * The meaning of an answer of S3, in words that say what to do.
 */
#include "publish/bodies/s3.h"

#include <stdio.h>
#include <string.h>

#include "publish/certificate.h"
#include "publish/parts.h"

/* Copy the text of an element of the XML, such as <Code>; "" if it is not there. */
static void element(const char *xml, const char *name, char *out, size_t cap)
{
	char open[32];
	const char *at, *end;
	size_t len;

	(void)snprintf(open, sizeof(open), "<%s>", name);
	at = strstr(xml, open);
	end = at ? strchr(at + strlen(open), '<') : NULL;
	len = end ? (size_t)(end - at) - strlen(open) : 0;
	if (len >= cap)
		len = cap - 1;
	if (len)
		memcpy(out, at + strlen(open), len);
	out[len] = 0;
}

static wherry_code no_answer(const wh_s3_answer *a, wherry_error *err)
{
	const char *cause = NULL;
	char before[96];

	if (a->result == CURLE_ABORTED_BY_CALLBACK)
		return wh_fail(err, WHERRY_CLOSED, "s3: the upload was ended");
	if (a->result == CURLE_PEER_FAILED_VERIFICATION)
		cause = wh_certificate_cause(
			a->certificate > 1 ? a->certificate : wh_certificate_of_another,
			"its certificate is of an authority that is not known here: if "
			"it is your own, name it with s3.ca_file");
	(void)snprintf(before, sizeof(before), "s3: no answer for bucket %.63s",
		       a->bucket);
	return wh_fail_answer(err, WHERRY_CLOSED, (int)a->result, before,
			      *a->error ? a->error : curl_easy_strerror(a->result),
			      cause);
}

wherry_code wh_s3_judge(const wh_s3_answer *a, wherry_error *err)
{
	char kind[64], text[120];

	if (a->status >= 200 && a->status < 300)
		return WHERRY_OK;
	if (!a->status || a->status < 200)
		return no_answer(a, err);
	element(a->text, "Code", kind, sizeof(kind));
	element(a->text, "Message", text, sizeof(text));
	if (a->region && strcmp(a->region, a->own_region) != 0 && *a->region)
		return wh_fail(err, WHERRY_INVALID,
			       "s3: bucket %.63s is in region %.40s, not %.40s: set "
			       "s3.region=%.40s",
			       a->bucket, a->region, a->own_region, a->region);
	if (strcmp(kind, "NoSuchBucket") == 0 || (a->status == 404 && !*kind))
		return wh_fail(err, WHERRY_NOTFOUND,
			       "s3: there is no bucket %.63s: create it, or correct "
			       "relay.body_store (HTTP 404)",
			       a->bucket);
	if (a->status == 403 && strcmp(kind, "SignatureDoesNotMatch") == 0)
		return wh_fail(err, WHERRY_DENIED,
			       "s3: the server computes another signature: check the "
			       "secret key and s3.region (HTTP 403 %s)",
			       kind);
	if (a->status == 403 && strcmp(kind, "RequestTimeTooSkewed") == 0)
		return wh_fail(err, WHERRY_DENIED,
			       "s3: the clock of this machine is wrong: set it (HTTP 403 "
			       "%s)",
			       kind);
	if (a->status == 403)
		return wh_fail(err, WHERRY_DENIED,
			       "s3: the key may not write to bucket %.63s: allow it "
			       "s3:PutObject on its objects (HTTP 403%s%s)",
			       a->bucket, *kind ? " " : "", kind);
	if (a->status >= 300 && a->status < 400)
		return wh_fail(err, WHERRY_INVALID,
			       "s3: HTTP %ld %s, and redirects are not followed: correct "
			       "s3.endpoint or s3.region",
			       a->status, kind);
	return wh_fail(err, a->status >= 500 ? WHERRY_BUSY : WHERRY_IO,
		       "s3: HTTP %ld%s%s%s%s", a->status, *kind ? " " : "", kind,
		       *text ? ": " : "", text);
}
