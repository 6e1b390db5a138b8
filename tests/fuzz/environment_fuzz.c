/* The environment of a command: each variable once, with the field it stands for; what is
 * inherited stays. */
#include "fuzz.h"

#include <unistd.h>

#include "publish/exec/environment.h"
#include "publish/parts.h"

static const char *value_of(const wh_environment *environment, const char *name)
{
	const char *value = NULL;
	size_t len = strlen(name);

	for (char **entry = environment->list; *entry; entry++)
		if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=') {
			CHECK(!value);
			value = *entry + len + 1;
		}
	CHECK(value);
	return value;
}

static void check(const wh_environment *environment, const char *name, const char *field)
{
	CHECK(strcmp(value_of(environment, name), field ? field : "") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	wh_environment environment = WH_ENVIRONMENT_INIT;
	const wherry_message *m;
	fuzz_message f;
	char id[32];

	fuzz_message_read(&f, data, len);
	m = &f.message;
	environment.also = "WHERRY_TOPIC*";
	if (setenv("WHERRY_TOPIC", "of a relay around this one", 1) != 0 ||
	    setenv("WHERRY_TOPICS", "somebody's own", 1) != 0)
		abort();
	CHECK(wh_environment_fill(&environment, m, NULL) == WHERRY_OK);
	(void)snprintf(id, sizeof(id), "%lld", (long long)m->id);
	check(&environment, "WHERRY_ID", id);
	check(&environment, "WHERRY_MESSAGE_ID", m->message_id);
	check(&environment, "WHERRY_TOPIC", m->topic);
	check(&environment, "WHERRY_KEY", wh_message_key(m));
	check(&environment, "WHERRY_AGGREGATE_TYPE", m->aggregate_type);
	check(&environment, "WHERRY_AGGREGATE_ID", m->aggregate_id);
	check(&environment, "WHERRY_TRACE_ID", m->trace_id);
	check(&environment, "WHERRY_HEADERS", wh_message_headers(m));
	check(&environment, "WHERRY_TOPICS", "somebody's own");
	wh_environment_clear(&environment);
	fuzz_message_clear(&f);
	return 0;
}
