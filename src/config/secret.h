/*
 * Secrets: what a setting says, or where it says that they are to be read.
 */
#ifndef WH_CONFIG_SECRET_H
#define WH_CONFIG_SECRET_H

#include "base/buf.h"

/*
 * Append the secret that text names: env:NAME is the value of a variable, file:PATH the
 * text of a file without the line breaks at its end, credential:NAME the same of a file in
 * the folder that systemd made for LoadCredential=, anything else the secret itself.
 *
 * The error says which variable or file is missing, never a secret.
 */
wherry_code wh_secret_read(const char *text, wh_buf *out, wherry_error *err);

/* Does text say where a secret is (env:, file:, credential:), and is none itself? */
bool wh_secret_elsewhere(const char *text);

/* Forget the bytes of a buffer before its memory goes. */
void wh_secret_clear(wh_buf *buf);

#endif
