#include "fault.h"

#include <errno.h>
#include <pthread.h>

#include <jansson.h>

#include "publish/driver.h"

static struct {
	fault_plan plan;
	bool armed;
	int seen, failed;
	char where[80];
	const char *op; /* NULL: any */
} now;

static const int64_t begin_us = 1800000000000000;
static _Atomic uint64_t last_random;
_Atomic int64_t fault_clock_us;

void fault_rewind(void)
{
	fault_clock_us = begin_us;
	last_random = 0;
}

void fault_arm(fault_plan plan)
{
	fault_arm_for(plan, NULL);
}

void fault_arm_for(fault_plan plan, const char *op)
{
	now.plan = plan;
	now.op = op;
	now.seen = now.failed = 0;
	now.where[0] = 0;
	now.armed = true;
}

void fault_disarm(void)
{
	now.armed = false;
}

bool fault_hit(void)
{
	return now.failed > 0;
}

bool fault_over(void)
{
	return now.failed >= now.plan.n;
}

const char *fault_where(void)
{
	return now.where;
}

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value && strcmp(value, "1") == 0;
}

bool fault_every(void)
{
	return is_set("WHERRY_FAULT_EVERY");
}

int fault_stride(int usual, int deep)
{
	if (fault_every())
		return 1;
	return is_set("WHERRY_TEST_DEEP") ? deep : usual;
}

/* Is it this call's turn to fail? */
static bool is_due(fault_kind kind, const char *op, const char *what)
{
	if (!now.armed || now.plan.kind != kind || (now.op && strcmp(now.op, op) != 0) ||
	    ++now.seen < now.plan.at || now.seen - now.plan.at >= now.plan.n)
		return false;
	if (!now.failed++)
		(void)snprintf(now.where, sizeof(now.where), "%d: %.24s %.24s", now.seen,
			       op, what);
	return true;
}

/* Handlers call from threads of their own. */
static bool due(fault_kind kind, const char *op, const char *what)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool yes;

	(void)pthread_mutex_lock(&lock);
	yes = is_due(kind, op, what);
	(void)pthread_mutex_unlock(&lock);
	return yes;
}

static wherry_code fail_with(wherry_error *err)
{
	return wh_fail(err, now.plan.with, "the test fails call %s", now.where);
}

/* ---- the clock ---- */

static int64_t read_clock(void *ctx)
{
	return fault_clock_us;
}

static uint64_t read_random(void *ctx)
{
	last_random = last_random * 6364136223846793005u + 1442695040888963407u;
	return last_random >> 11;
}

/* A transaction that is repeated has the times of one that was not. */
static void sleep_clock(void *ctx, int64_t us)
{
	if (now.armed && now.plan.kind == FAULT_UNDONE)
		return;
	fault_clock_us += us;
}

const wh_env __wrap_wh_env_system = {
	.now_us = read_clock,
	.monotonic_us = read_clock,
	.random = read_random,
	.sleep_us = sleep_clock,
};

/* SQLite counts the milliseconds from noon of 24 November 4714 BC. */
static int sqlite_clock(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
	*out = 210866760000000 + fault_clock_us / 1000;
	return SQLITE_OK;
}

/* ---- files: what is written need not be on disk, as nothing here pulls the plug ---- */

static sqlite3_vfs below;

static int no_sync(sqlite3_file *file, int flags)
{
	return SQLITE_OK;
}

static int open_unsynced(sqlite3_vfs *vfs, const char *name, sqlite3_file *file,
			 int flags, int *out_flags)
{
	static sqlite3_io_methods
		methods[2]; /* SQLite has them for databases, and others */
	int which = (flags & SQLITE_OPEN_MAIN_DB) != 0;
	int rc = below.xOpen(vfs, name, file, flags, out_flags);

	if (rc != SQLITE_OK)
		return rc;
	methods[which] = *file->pMethods;
	methods[which].xSync = no_sync;
	file->pMethods = &methods[which];
	return SQLITE_OK;
}

static int delete_unsynced(sqlite3_vfs *vfs, const char *name, int sync)
{
	return below.xDelete(vfs, name, 0);
}

/* ---- memory ---- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *was, size_t n);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *was, size_t n);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);

static bool none_left(const char *who)
{
	bool ours = strncmp(who, "of ", 3) != 0;

	if (!due(FAULT_MEMORY, "allocation", who) &&
	    !(ours && due(FAULT_OWN_MEMORY, "allocation", who)))
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return none_left("malloc") ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return none_left("calloc") ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *was, size_t n)
{
	return none_left("realloc") ? NULL : __real_realloc(was, n);
}

char *__wrap_strdup(const char *text)
{
	return none_left("strdup") ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t n)
{
	return none_left("strndup") ? NULL : __real_strndup(text, n);
}

static void *jansson_malloc(size_t n)
{
	return none_left("of Jansson") ? NULL : __real_malloc(n);
}

static sqlite3_mem_methods sqlite_memory;

static void *sqlite_malloc(int n)
{
	return none_left("of SQLite") ? NULL : sqlite_memory.xMalloc(n);
}

static void *sqlite_realloc(void *was, int n)
{
	return none_left("of SQLite") ? NULL : sqlite_memory.xRealloc(was, n);
}

void fault_set_up(void)
{
	static sqlite3_vfs vfs;
	sqlite3_mem_methods ours;

	json_set_alloc_funcs(jansson_malloc, free);
	assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory),
			 SQLITE_OK);
	ours = sqlite_memory;
	ours.xMalloc = sqlite_malloc;
	ours.xRealloc = sqlite_realloc;
	assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &ours), SQLITE_OK);
	vfs = below = *sqlite3_vfs_find(NULL);
	vfs.zName = "fault";
	vfs.xOpen = open_unsynced;
	vfs.xDelete = delete_unsynced;
	vfs.xCurrentTimeInt64 = sqlite_clock;
	assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

/* ---- the database ---- */

/* Transactions and savepoints that are open. */
static int n_open;

static wherry_code undo(wherry_error *err)
{
	wherry_code code = fail_with(err);

	if (err)
		(void)snprintf(err->sqlstate, sizeof(err->sqlstate), "40P01");
	return code;
}

static wherry_code before(void *ctx, const char *op, const char *what, wherry_error *err)
{
	if (n_open && strcmp(op, "commit") == 0 && due(FAULT_UNDONE, op, what))
		return undo(err);
	return due(FAULT_DATABASE, op, what) ? fail_with(err) : WHERRY_OK;
}

/* Rows of a statement were visited when the server undoes it. */
static wherry_code after_in_transaction(const char *op, const char *what,
					wherry_code code, wherry_error *err)
{
	bool begun = strcmp(op, "begin") == 0, committed = strcmp(op, "commit") == 0;

	n_open += code == WHERRY_OK && begun;
	n_open -= (code == WHERRY_OK && committed) || strcmp(op, "rollback") == 0;
	return code == WHERRY_OK && n_open && !begun && !committed &&
			       due(FAULT_UNDONE, op, what)
		       ? undo(err)
		       : code;
}

static wherry_code after(void *ctx, const char *op, const char *what, wherry_code code,
			 int64_t took_us, wherry_error *err)
{
	code = after_in_transaction(op, what, code, err);
	if (code != WHERRY_OK || strcmp(op, "rollback") == 0 ||
	    !due(FAULT_ANSWER, op, what))
		return code;
	return fail_with(err);
}

void fault_trace(wherry_db **db)
{
	const wh_trace trace = {.before = before, .after = after};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_trace(*db, &trace, db, &err));
}

wherry_code __real_wh_db_open(const char *url, const wh_db_options *options,
			      wherry_db **out, wherry_error *err);
wherry_code __wrap_wh_db_open(const char *url, const wh_db_options *options,
			      wherry_db **out, wherry_error *err);

wherry_code __wrap_wh_db_open(const char *url, const wh_db_options *options,
			      wherry_db **out, wherry_error *err)
{
	const wh_trace trace = {.before = before, .after = after};
	wherry_db *db = NULL;
	wherry_code code = before(NULL, "open", "", err);

	if (code == WHERRY_OK)
		code = __real_wh_db_open(url, options, &db, err);
	if (code == WHERRY_OK)
		code = after(NULL, "open", "", code, 0, err);
	if (code == WHERRY_OK)
		code = wh_db_trace(db, &trace, &db, err);
	if (code == WHERRY_OK)
		*out = db;
	else
		wherry_db_close(db);
	return code;
}

/* ---- publishers ---- */

fault_destination fault_fake;

wherry_code __real_wh_publisher_open(const char *url, const wherry_config *config,
				     const wh_env *env, wherry_publisher **out,
				     wherry_error *err);
wherry_code __wrap_wh_publisher_open(const char *url, const wherry_config *config,
				     const wh_env *env, wherry_publisher **out,
				     wherry_error *err);
wherry_code __real_wh_publisher_open_raw(const char *url, const wherry_config *config,
					 const wh_env *env, wherry_publisher **out,
					 wherry_error *err);
wherry_code __wrap_wh_publisher_open_raw(const char *url, const wherry_config *config,
					 const wh_env *env, wherry_publisher **out,
					 wherry_error *err);
wherry_code __real_wh_publisher_submit(wherry_publisher *pub,
				       const wherry_message *const *msgs, size_t n,
				       size_t *out_taken, wherry_error *err);
wherry_code __wrap_wh_publisher_submit(wherry_publisher *pub,
				       const wherry_message *const *msgs, size_t n,
				       size_t *out_taken, wherry_error *err);
wherry_code __real_wh_publisher_collect(wherry_publisher *pub, wh_receipt *out,
					size_t cap, size_t *out_n, wherry_error *err);
wherry_code __wrap_wh_publisher_collect(wherry_publisher *pub, wh_receipt *out,
					size_t cap, size_t *out_n, wherry_error *err);

int fault_letters;

static wherry_verdict take_letter(void *ctx, const wherry_message *msg)
{
	return strstr(msg->headers, "wherry-dead-error") ? WHERRY_DELIVERED
							 : WHERRY_REJECTED;
}

static void note_letter(void *ctx, const wherry_message *msg, wherry_verdict verdict)
{
	fault_letters += verdict == WHERRY_DELIVERED;
}

/* Linked in place of both functions that open a destination: `real` is the one that it was. */
static wherry_code open_publisher(__typeof__(wh_publisher_open) *real, const char *url,
				  const wherry_config *config, const wh_env *env,
				  wherry_publisher **out, wherry_error *err)
{
	relay_fake *fake;

	if (due(FAULT_PUBLISHER, "open", url))
		return fail_with(err);
	if (strcmp(url, "fake:") != 0 && strcmp(url, "letters:") != 0)
		return real(url, config, env, out, err);
	fake = relay_fake_open(fault_fake.caps);
	if (!fake)
		return wh_oom(err);
	fake->decide = *url == 'f' ? fault_fake.decide : take_letter;
	fake->note = *url == 'f' ? fault_fake.note : note_letter;
	fake->ctx = fault_fake.ctx;
	*out = &fake->base;
	return WHERRY_OK;
}

wherry_code __wrap_wh_publisher_open(const char *url, const wherry_config *config,
				     const wh_env *env, wherry_publisher **out,
				     wherry_error *err)
{
	return open_publisher(__real_wh_publisher_open, url, config, env, out, err);
}

wherry_code __wrap_wh_publisher_open_raw(const char *url, const wherry_config *config,
					 const wh_env *env, wherry_publisher **out,
					 wherry_error *err)
{
	return open_publisher(__real_wh_publisher_open_raw, url, config, env, out, err);
}

wherry_code __wrap_wh_publisher_submit(wherry_publisher *pub,
				       const wherry_message *const *msgs, size_t n,
				       size_t *out_taken, wherry_error *err)
{
	wherry_code code;

	*out_taken = 0;
	if (due(FAULT_PUBLISHER, "submit", ""))
		return fail_with(err);
	code = __real_wh_publisher_submit(pub, msgs, n, out_taken, err);
	if (code == WHERRY_OK && due(FAULT_RECEIPT, "submit", ""))
		code = fail_with(err);
	return code;
}

wherry_code __wrap_wh_publisher_collect(wherry_publisher *pub, wh_receipt *out,
					size_t cap, size_t *out_n, wherry_error *err)
{
	wherry_code code;

	*out_n = 0;
	if (due(FAULT_PUBLISHER, "collect", ""))
		return fail_with(err);
	code = __real_wh_publisher_collect(pub, out, cap, out_n, err);
	if (code != WHERRY_OK || !due(FAULT_RECEIPT, "collect", ""))
		return code;
	*out_n = 0;
	return fail_with(err);
}
