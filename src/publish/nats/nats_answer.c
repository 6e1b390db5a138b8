/*
 * The answer of a stream: {"stream":"ORDERS","seq":42}, perhaps with "duplicate":true, or
 * {"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},…}.
 */
#include "publish/nats/nats.h"

#include <jansson.h>
#include <string.h>

wh_nats_answer wh_nats_answer_read(const char *data, size_t len)
{
	wh_nats_answer answer = {.outcome = WH_NATS_STRANGE};
	json_t *all = json_loadb(data, len, 0, NULL);
	const json_t *error = json_object_get(all, "error");
	const char *text;

	if (json_is_object(error)) {
		text = json_string_value(json_object_get(error, "description"));
		answer.outcome = WH_NATS_REFUSED;
		answer.code = (int)json_integer_value(json_object_get(error, "code"));
		answer.number =
			(int)json_integer_value(json_object_get(error, "err_code"));
		answer.text = text ? strdup(text) : NULL;
	} else if (json_is_string(json_object_get(all, "stream")) &&
		   json_is_integer(json_object_get(all, "seq"))) {
		answer.outcome = json_is_true(json_object_get(all, "duplicate"))
					 ? WH_NATS_DOUBLED
					 : WH_NATS_STORED;
	}
	json_decref(all);
	return answer;
}
