#include "publish/exec/environment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "publish/parts.h"

static const char *const names[] = {
	"WHERRY_ID",         "WHERRY_MESSAGE_ID",     "WHERRY_TOPIC",
	"WHERRY_KEY",        "WHERRY_AGGREGATE_TYPE", "WHERRY_AGGREGATE_ID",
	"WHERRY_TRACE_ID",   "WHERRY_HEADERS",        "WHERRY_ATTEMPTS",
	"WHERRY_CREATED_AT",
};

enum { NAME_COUNT = sizeof(names) / sizeof(*names) };

/* Is this a variable that we set?  A relay may itself run under exec: of another
 * relay. */
static bool is_ours(const char *variable)
{
	size_t len = strcspn(variable, "=");

	for (size_t i = 0; i < NAME_COUNT; i++)
		if (strlen(names[i]) == len && memcmp(names[i], variable, len) == 0)
			return true;
	return false;
}

static const char between[] = " ,\t\r\n";

wherry_code wh_environment_check(const char *list, wherry_error *err)
{
	for (list += strspn(list, between); *list; list += strspn(list, between)) {
		size_t n = strcspn(list, between), name = strcspn(list, "=*");

		if (name + (list[name] == '*') < n)
			return wh_fail(
				err, WHERRY_INVALID,
				"exec.environment: '%.*s' is not the name of a variable: "
				"write names such as API_URL, or AWS_* for all that begin "
				"so, with blanks between; their values are those of the "
				"relay",
				(int)(name < 40 ? name + 1 : 40), list);
		list += n;
	}
	return WHERRY_OK;
}

/* Is the variable's name in a list with blanks or commas between the names?  A name that
 * ends in '*' matches all names that begin so. */
static bool is_listed(const char *variable, const char *list)
{
	size_t len = strcspn(variable, "=");

	for (list += strspn(list, between); *list; list += strspn(list, between)) {
		size_t n = strcspn(list, between);
		bool begins = list[n - 1] == '*';
		size_t same = begins ? n - 1 : n;

		if ((begins ? len >= same : len == same) &&
		    memcmp(variable, list, same) == 0)
			return true;
		list += n;
	}
	return false;
}

static bool is_passed_on(const wh_environment *environment, const char *variable)
{
	static const char harmless[] = "PATH HOME USER LANG LC_* TZ TMPDIR";

	if (is_ours(variable))
		return false;
	return is_listed(variable, harmless) ||
	       (environment->also && is_listed(variable, environment->also));
}

static void put_text(wh_buf *text, const char *name, const char *value)
{
	wh_buf_puts(text, name);
	wh_buf_putc(text, '=');
	wh_buf_puts(text, value ? value : "");
	wh_buf_putc(text, 0);
}

static void put_number(wh_buf *text, const char *name, int64_t value)
{
	wh_buf_printf(text, "%s=%" PRId64, name, value);
	wh_buf_putc(text, 0);
}

static void put_message(wh_buf *text, const wherry_message *msg)
{
	char created[WH_TIME_LEN];

	wh_time_print(msg->created_at_us, created);
	put_number(text, "WHERRY_ID", msg->id);
	put_text(text, "WHERRY_MESSAGE_ID", msg->message_id);
	put_text(text, "WHERRY_TOPIC", msg->topic);
	put_text(text, "WHERRY_KEY", wh_message_key(msg));
	put_text(text, "WHERRY_AGGREGATE_TYPE", msg->aggregate_type);
	put_text(text, "WHERRY_AGGREGATE_ID", msg->aggregate_id);
	put_text(text, "WHERRY_TRACE_ID", msg->trace_id);
	put_text(text, "WHERRY_HEADERS", wh_message_headers(msg));
	put_number(text, "WHERRY_ATTEMPTS", msg->attempts);
	put_text(text, "WHERRY_CREATED_AT", created);
}

static bool reserve(wh_environment *environment, size_t n)
{
	char **list;

	if (n <= environment->cap)
		return true;
	list = realloc(environment->list, n * sizeof(*list));
	if (!list)
		return false;
	environment->list = list;
	environment->cap = n;
	return true;
}

wherry_code wh_environment_fill(wh_environment *environment, const wherry_message *msg,
				wherry_error *err)
{
	size_t n_given = 0, n = 0;
	wherry_code code;

	wh_buf_reset(&environment->text);
	put_message(&environment->text, msg);
	code = wh_buf_check(&environment->text, err);
	if (code != WHERRY_OK)
		return code;
	while (environ && environ[n_given])
		n_given++;
	if (!reserve(environment, n_given + NAME_COUNT + 1))
		return wh_oom(err);
	for (size_t i = 0; i < n_given; i++)
		if (is_passed_on(environment, environ[i]))
			environment->list[n++] = environ[i];
	for (size_t at = 0; at < environment->text.len;) {
		environment->list[n] = environment->text.ptr + at;
		at += strlen(environment->list[n++]) + 1;
	}
	environment->list[n] = NULL;
	return WHERRY_OK;
}

void wh_environment_clear(wh_environment *environment)
{
	wh_buf_clear(&environment->text);
	free(environment->list);
	environment->list = NULL;
	environment->cap = 0;
}
