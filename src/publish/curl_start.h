/*
 * Starting libcurl, once in a program, for all that use it.
 */
#ifndef WH_PUBLISH_CURL_START_H
#define WH_PUBLISH_CURL_START_H

#include "base/error.h"

/* NOMEM: libcurl cannot start.  Threads: any. */
wherry_code wh_curl_start(wherry_error *err);

#endif
