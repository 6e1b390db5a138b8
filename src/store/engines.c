#include "store/engines.h"

#include <stddef.h>
#include <string.h>

typedef struct engine {
	const char *name, *word;
	bool reads_log;
} engine;

static const engine engines[WH_ENGINES + 1] = {
	[WH_COMPETING] = {"competing", "competing", false},
	[WH_STREAM] = {"stream", "stream", true},
	[WH_POSITIONS] = {"log", "log", false},
	[WH_POSITIONS_SHARED] = {"log, partitions", "log", false},
	[WH_ENGINES] = {"unknown", "unknown", false},
};

/* ---- which relays work beside each other ---- */

static const wh_meeting meetings[WH_ENGINES][WH_ENGINES] = {
	[WH_COMPETING] = {[WH_COMPETING] = WH_WORKS_BESIDE},
	[WH_STREAM] = {[WH_STREAM] = WH_STANDS_BY},
	[WH_POSITIONS] =
		{[WH_POSITIONS] = WH_STANDS_BY, [WH_POSITIONS_SHARED] = WH_STANDS_BY},
	[WH_POSITIONS_SHARED] =
		{[WH_POSITIONS] = WH_STANDS_BY, [WH_POSITIONS_SHARED] = WH_WORKS_BESIDE},
};

wh_meeting wh_meet_now(wh_engine newcomer, wh_engine holder)
{
	if (newcomer >= WH_ENGINES || holder >= WH_ENGINES)
		return WH_REFUSED;
	return meetings[newcomer][holder];
}

/* ---- names ---- */

const char *wh_engine_name(wh_engine which)
{
	return engines[which].name;
}

const char *wh_engine_word(wh_engine which)
{
	return engines[which].word;
}

bool wh_engine_may_share(wh_engine which)
{
	return which == WH_POSITIONS;
}

bool wh_engine_reads_log(wh_engine which)
{
	return engines[which].reads_log;
}

bool wh_engine_claims(wh_engine which)
{
	return which == WH_COMPETING;
}

bool wh_engine_marks(wh_engine which)
{
	return which != WH_STREAM;
}

wh_engine wh_engine_of(const char *word)
{
	for (int i = 0; word && i < WH_ENGINES; i++)
		if (strcmp(engines[i].word, word) == 0)
			return (wh_engine)i;
	return WH_ENGINES;
}
