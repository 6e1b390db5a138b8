/*
 * The suite on a destination whose bodies all go to a body store.
 */
#include "publisher_suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct place {
	wherry_temp temp;
	char bodies[256];
} place;

static void *start(char *url, size_t cap)
{
	place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	(void)snprintf(url, cap, "file:%s", wherry_temp_make(&p->temp, "out.ndjson"));
	(void)snprintf(p->bodies, sizeof(p->bodies), "%s/bodies", p->temp.dir);
	assert_int_equal(mkdir(p->bodies, 0700), 0);
	return p;
}

static void stop(void *arg)
{
	place *p = arg;

	wherry_temp_clear(&p->temp);
	free(p);
}

static void set(wherry_config *config, const char *key, const char *value)
{
	assert_int_equal(wherry_config_set(config, key, value, NULL), WHERRY_OK);
}

static void store_in(wherry_config *config, const char *folder)
{
	char url[300];

	(void)snprintf(url, sizeof(url), "file:%s", folder);
	set(config, "relay.body_store", url);
	set(config, "relay.body_store_above", "1B");
}

static void prepare(void *arg, wherry_config *config)
{
	const place *p = arg;

	store_in(config, p->bodies);
}

static void doom_headers(void *arg, publisher_fate fate, wherry_message *msg, char *text,
			 size_t cap)
{
	msg->headers = "[]";
}

static size_t arrived(void *arg, wherry_publisher *pub, int *numbers, size_t cap)
{
	const place *p = arg;
	FILE *file = fopen(p->temp.path, "re");
	char line[4096];
	size_t n = 0;

	while (file && n < cap && fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, "\"message_id\":\"m-");

		assert_non_null(strstr(line, "wherry_body"));
		if (at)
			numbers[n++] = (int)strtol(at + 16, NULL, 10);
	}
	if (file)
		(void)fclose(file);
	return n;
}

static const publisher_backend in_folder = {
	.name = "bodies",
	.many = 200,
	.alone = 1 << FATE_REJECTED,
	.mixed = 1 << FATE_REJECTED,
	.start = start,
	.stop = stop,
	.prepare = prepare,
	.doom = doom_headers,
	.arrived = arrived,
};

int main(void)
{
	static const publisher_backend *const all[] = {&in_folder};

	return publisher_suite_run(all, 1);
}
