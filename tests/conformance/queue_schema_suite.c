#include "queue_suite.h"

WHERRY_CASE(creating_a_queue_twice_changes_nothing, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	(void)queue_send(f, 1);
	WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
	(void)queue_lease(f->queue, 1, "1");
}

WHERRY_CASE(a_queue_that_is_not_there_is_named, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;

	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_open(f->db, "tasks", &queue, &err));
	assert_string_equal(err.message, "there is no queue 'tasks' in this database");
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_QUEUE);
	assert_string_equal(err.table, "tasks");
	assert_null(queue);
}

WHERRY_CASE(a_name_that_injects_sql_runs_nothing, queue_fixture *f)
{
	static const char name[] = "x\"; DROP TABLE jobs; --";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	wherry_code code = wherry_queue_open(f->db, name, &queue, &err);

	assert_true(code == WHERRY_NOTFOUND || code == WHERRY_INVALID);
	(void)queue_send(f, 1);
	(void)queue_lease(f->queue, 1, "1");
}

WHERRY_CASE(a_table_that_is_something_else_is_refused, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	queue_raw(f, "CREATE TABLE orders(id integer)");
	WHERRY_FAILS(WHERRY_INVALID, wherry_queue_create(f->db, "orders", NULL, &err));
	assert_non_null(strstr(err.message, "with another purpose"));
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_queue_create(f->db, "outbox", NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_create(f->db, "jobs", NULL, &err));
}

WHERRY_CASE(a_dropped_queue_leaves_what_others_use, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *other = NULL;

	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_create(f->db, "tasks", NULL, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "tasks", &other, &err));
	WHERRY_PASS(wherry_queue_drop(other, &err));
	wherry_queue_close(other);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_queue_open(f->db, "tasks", &other, &err));
	(void)queue_send(f, 1);
	(void)queue_lease(f->queue, 1, "1");
	WHERRY_PASS(wherry_queue_drop(f->queue, &err));
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
}

WHERRY_CASE(the_last_queue_takes_everything_along, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_queue_drop(f->queue, &err));
	WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
}

const queue_case queue_schema_cases[] = {
	QUEUE_OWNER_CASE(creating_a_queue_twice_changes_nothing, false),
	QUEUE_OWNER_CASE(a_queue_that_is_not_there_is_named, true),
	QUEUE_CASE(a_name_that_injects_sql_runs_nothing),
	QUEUE_MODELS_CASE(a_table_that_is_something_else_is_refused),
	QUEUE_MODELS_CASE(a_dropped_queue_leaves_what_others_use),
	QUEUE_OWNER_CASE(the_last_queue_takes_everything_along, true),
	{NULL, NULL, false, false, false, false},
};
