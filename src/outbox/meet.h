/*
 * Which engines, layouts and options may meet on one outbox, and which relays may work on it
 * at the same time or one after the other.  docs/internals/engines.md shows both tables.
 */
#ifndef WH_OUTBOX_MEET_H
#define WH_OUTBOX_MEET_H

#include <stdbool.h>

#include <wherry/error.h>

typedef enum wh_engine {
	WH_EXCLUSIVE,   /* has the whole outbox under one lease */
	WH_PARTITIONED, /* exclusive, on an outbox made with init --slots */
	WH_COMPETING,
	WH_STREAM,      /* marks, deletes or archives the rows that it delivered */
	WH_STREAM_KEEP, /* writes nothing to rows: relay.on_done=keep */
	WH_ENGINES      /* their number; also an engine that this version does not know */
} wh_engine;

/* Tables of a layout on a database. */
typedef enum wh_home {
	WH_NATIVE_SQLITE,
	WH_NATIVE_POSTGRES,
	WH_EVENT_BUS,
	WH_EVENTFERRY,
	WH_DEBEZIUM,
	WH_HOMES
} wh_home;

/* What a relay, or init, may be asked for. */
typedef enum wh_ask {
	WH_ASK_ENGINE, /* the engine itself */
	WH_ASK_KEY,    /* relay.ordering, if set */
	WH_ASK_STRICT,
	WH_ASK_PARK,
	WH_ASK_MARK, /* relay.on_done, if set */
	WH_ASK_DELETE,
	WH_ASK_ARCHIVE,
	WH_ASK_KEEP,
	WH_ASK_EXPIRY_ARCHIVE,
	WH_ASK_FAILED_ONLY,
	WH_ASK_HANDLERS,
	WH_ASK_INIT_STRICT,
	WH_ASK_INIT_SLOTS,
	WH_ASK_INIT_STREAM,
	WH_ASKS
} wh_ask;

/* Names for documents and messages: "competing", "native, SQLite", "relay.on_dead=park". */
const char *wh_engine_name(wh_engine which);
const char *wh_home_name(wh_home which);
const char *wh_ask_name(wh_ask which);

/* WH_HOMES: there is no such layout there. */
wh_home wh_home_of(const char *layout, const char *scheme);

/* The word for an engine in wherry_slot, and back. */
const char *wh_engine_word(wh_engine which);
wh_engine wh_engine_of(const char *word);

/* The options that start a relay of this engine: "--engine stream --on-done keep". */
const char *wh_engine_options(wh_engine which);

/* Does this engine work on these tables at all? */
bool wh_meet_works(wh_home at, wh_engine by);

/* Refuse what this engine cannot do on these tables, with the way out.  by: WH_ENGINES for what
 * init is asked for. */
wherry_code wh_meet_check(wh_home at, wh_engine by, wh_ask ask, wherry_error *err);

/* What becomes of a relay that comes while another one works. */
typedef enum wh_meeting {
	WH_REFUSED,
	WH_STANDS_BY,
	WH_WORKS_BESIDE,
} wh_meeting;

wh_meeting wh_meet_now(wh_engine newcomer, wh_engine holder);

/* May it go on where that one ended?  false: it would deliver everything again. */
bool wh_meet_after(wh_engine newcomer, wh_engine last);

#endif
