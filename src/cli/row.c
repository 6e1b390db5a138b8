#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

#include "publish/parts.h"

void wh_put_text_field(wh_buf *buf, const char *name, const char *text)
{
	wh_buf_printf(buf, ",\"%s\":", name);
	if (text)
		wh_buf_json(buf, text, strlen(text));
	else
		wh_buf_puts(buf, "null");
}

void wh_put_age_field(wh_buf *buf, const char *name, int64_t us)
{
	if (us < 0)
		wh_buf_printf(buf, ",\"%s\":null", name);
	else
		wh_buf_printf(buf, ",\"%s\":%" PRId64, name, us);
}

void wh_put_time_field(wh_buf *buf, const char *name, int64_t us)
{
	char text[WH_TIME_LEN];

	if (us)
		wh_time_print(us, text);
	wh_put_text_field(buf, name, us ? text : NULL);
}
