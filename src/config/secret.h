/*
 * Secrets, given in a setting or read from where the setting says.
 */
#ifndef WH_CONFIG_SECRET_H
#define WH_CONFIG_SECRET_H

#include "base/buf.h"

/*
 * Append the secret that text names.  env:NAME is the value of an environment variable.
 * file:PATH is the text of a file without the line breaks at its end.  credential:NAME is
 * such a file in the folder that systemd made for LoadCredential=.  Any other text is the
 * secret itself.
 *
 * An error names the missing variable or file, and never contains a secret.
 */
wherry_code wh_secret_read(const char *text, wh_buf *out, wherry_error *err);

/* Does text name a source of a secret (env:, file:, credential:), so that it is not
 * itself secret? */
bool wh_secret_elsewhere(const char *text);

/* Overwrite the bytes of a buffer, then free it. */
void wh_secret_clear(wh_buf *buf);

#endif
