#include "publish/curl_start.h"

#include <curl/curl.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode ready;

static void start(void)
{
	ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

wherry_code wh_curl_start(wherry_error *err)
{
	(void)pthread_once(&once, start);
	return ready == CURLE_OK ? WHERRY_OK
				 : wh_fail(err, WHERRY_NOMEM, "libcurl cannot start: %s",
					   curl_easy_strerror(ready));
}
