/*
 * Which relays of a plan read from the same server.
 */
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "daemon/plan.h"

/* Parameters of a URL that say where the server is. */
static const char *const places[] = {"host", "hostaddr", "port", NULL};

/* The hosts of a URL; all behind the scheme if a password hides where they begin. */
static wh_view hosts_of(const char *url)
{
	wh_view rest = wh_view_of(url), hosts;
	wh_url parts;

	if (wh_url_parse(url, &parts, NULL) == WHERRY_OK)
		rest = parts.rest;
	hosts = wh_url_hosts(rest.ptr);
	return hosts.ptr ? hosts : rest;
}

static bool same_place(const char *a, const char *b, const char *name)
{
	char *url_a = strdup(a), *url_b = strdup(b), *value_a = NULL, *value_b = NULL;
	bool same = url_a && url_b &&
		    wh_url_take(url_a, name, &value_a, NULL) == WHERRY_OK &&
		    wh_url_take(url_b, name, &value_b, NULL) == WHERRY_OK &&
		    strcmp(value_a ? value_a : "", value_b ? value_b : "") == 0;

	free(url_a);
	free(url_b);
	free(value_a);
	free(value_b);
	return same;
}

bool wh_plan_same_server(const char *a, const char *b)
{
	bool same = wh_view_eq(hosts_of(a), hosts_of(b));

	for (int i = 0; same && places[i]; i++)
		same = same_place(a, b, places[i]);
	return same;
}

size_t wh_plan_on_server(const wh_plan *plan, const char *url)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n_relays; i++)
		n += plan->relays[i].match.value && plan->relays[i].from.value &&
		     !wh_plan_in_files(&plan->relays[i]) &&
		     wh_plan_same_server(plan->relays[i].from.value, url);
	return n;
}
