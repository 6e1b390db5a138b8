/*
 * Signatures of Standard Webhooks, of "id.timestamp.body": v1 with HMAC-SHA256, v1a with
 * Ed25519.
 */
#ifndef WH_PUBLISH_WEBHOOK_SIGN_H
#define WH_PUBLISH_WEBHOOK_SIGN_H

#include "base/buf.h"

typedef struct wh_signer wh_signer;

/*
 * Read secrets, each "whsec_" or "whsk_" (a private key) and base64, with blanks, commas or line breaks between
 * them.  Instead of a secret there may be env:NAME, file:PATH or credential:NAME, which
 * may have several secrets.
 *
 * @param out  Set to NULL if text is empty.  Free it with wh_signer_free(), which accepts
 * NULL.
 */
wherry_code wh_signer_new(const char *text, wh_signer **out, wherry_error *err);
void wh_signer_free(wh_signer *signer);

/* Append "v1,BASE64" or "v1a,BASE64" for each secret, with blanks between them.  False: no memory. */
bool wh_signer_sign(const wh_signer *signer, const char *id, int64_t unix_s,
		    const void *body, size_t len, wh_buf *out);

#endif
