#include "wherry_test.h"

#include "base/url.h"

WHERRY_TEST(a_url_is_a_scheme_and_the_rest)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_url url;

	WHERRY_PASS(wh_url_parse("sqlite:shop.db", &url, &err));
	assert_true(wh_view_eq(url.scheme, wh_view_of("sqlite")));
	assert_true(wh_view_eq(url.rest, wh_view_of("shop.db")));
	WHERRY_PASS(wh_url_parse("sqlite::memory:", &url, &err));
	assert_true(wh_view_eq(url.rest, wh_view_of(":memory:")));
	WHERRY_PASS(wh_url_parse("stdout:", &url, &err));
	assert_true(wh_view_eq(url.rest, wh_view_of("")));
	WHERRY_PASS(wh_url_parse("a1+b-c.d://x", &url, &err));
	assert_true(wh_view_eq(url.scheme, wh_view_of("a1+b-c.d")));
	assert_true(wh_view_eq(url.rest, wh_view_of("//x")));
}

WHERRY_TEST(what_has_no_scheme_is_refused_and_nothing_changes)
{
	static const char *const rows[] = {"",      ":",    "shop.db",  "1a:x",  "-a:x",
					   "a b:c", " a:b", "/tmp/a:b", "sqlite"};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_url url = {{"x", 1}, {"y", 1}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID, wh_url_parse(rows[i], &url, &err));
		assert_string_equal(url.scheme.ptr, "x");
		assert_string_equal(url.rest.ptr, "y");
	}
	assert_non_null(strstr(err.message, "sqlite:shop.db"));
}

WHERRY_TEST(the_name_behind_a_hash_is_a_table)
{
	static const struct {
		const char *url, *database, *table, *queue, *type;
	} rows[] = {
		{"sqlite:a.db#jobs", "sqlite:a.db", "jobs", "", ""},
		{"postgres://h/db?a=b#s.jobs", "postgres://h/db?a=b", "s.jobs", "", ""},
		{"postgres:///db#%22J%20o%22", "postgres:///db", "\"J o\"", "", ""},
		{"sqlite:a.db#later/mail", "sqlite:a.db", "later", "mail", ""},
		{"sqlite:a.db#later/ma%2Fil/java.lang.String", "sqlite:a.db", "later",
		 "ma/il", "java.lang.String"},
		{"sqlite:a%23b.db#\xc3\xbc", "sqlite:a%23b.db", "\xc3\xbc", "", ""},
	};
	/* Here the '#' belongs to something else. */
	static const char *const none[] = {"sqlite:a.db", "postgres://u:a#b@h/db",
					   "postgres://h/db?password=a#b&c=d",
					   "odbc:Driver=x;Pwd=a#b;Server=h"};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_table_name name;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *database = wh_url_database(rows[i].url), *joined;

		assert_string_equal(database, rows[i].database);
		WHERRY_PASS(wh_table_name_read(wh_url_table(rows[i].url), &name, &err));
		assert_string_equal(name.table, rows[i].table);
		assert_string_equal(name.queue, rows[i].queue);
		assert_string_equal(name.type, rows[i].type);
		joined =
			wh_url_join(database, name.table, *name.queue ? name.queue : NULL,
				    *name.type ? name.type : NULL);
		assert_string_equal(joined, rows[i].url);
		free(joined);
		free(database);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		assert_null(wh_url_table(none[i]));
}

WHERRY_TEST(a_name_that_is_none_is_refused)
{
	static const char *const bad[] = {"",  "/q", "t/",   "t/q/",  "t/q/x/y",
					  "%", "%0", "a%00", "t/%zz", "/"};
	wherry_error err = WHERRY_ERROR_INIT;
	char long_name[300];
	wh_table_name name;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		WHERRY_FAILS(WHERRY_INVALID, wh_table_name_read(bad[i], &name, &err));
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	WHERRY_FAILS(WHERRY_TOOBIG, wh_table_name_read(long_name, &name, &err));
}

WHERRY_TEST(a_mistyped_parameter_is_named)
{
	static const char *const known[] = {"inbox", "inbox_retention", NULL};
	static const char *const rows[][3] = {
		{"sqlite:a.db?inbx=q", "'inbx'", "did you mean 'inbox'"},
		{"sqlite:a.db?inbox=q&inbox=r", "'inbox'", "twice"},
		{"sqlite:a.db?inbox=q&colour=x", "'colour'", "inbox and inbox_retention"},
		{"postgres://h/db?inbox_retension=1d", "'inbox_retension'",
		 "did you mean 'inbox_retention'"},
	};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID,
			     wh_url_check_parameters(rows[i][0], known, &err));
		if (!strstr(err.message, rows[i][1]) || !strstr(err.message, rows[i][2]))
			print_error("%s: %s\n", rows[i][0], err.message);
		assert_non_null(strstr(err.message, rows[i][1]));
		assert_non_null(strstr(err.message, rows[i][2]));
	}
}

WHERRY_TEST(a_parameter_of_the_database_is_not_taken_for_a_mistyped_one)
{
	static const char *const names[] = {"application_name",
					    "channel_binding",
					    "client_encoding",
					    "connect_timeout",
					    "dbname",
					    "fallback_application_name",
					    "gssdelegation",
					    "gssencmode",
					    "gsslib",
					    "host",
					    "hostaddr",
					    "keepalives",
					    "keepalives_count",
					    "keepalives_idle",
					    "keepalives_interval",
					    "krbsrvname",
					    "load_balance_hosts",
					    "max_protocol_version",
					    "options",
					    "passfile",
					    "password",
					    "port",
					    "replication",
					    "require_auth",
					    "requirepeer",
					    "requiressl",
					    "service",
					    "ssl",
					    "ssl_max_protocol_version",
					    "ssl_min_protocol_version",
					    "sslcert",
					    "sslcertmode",
					    "sslcompression",
					    "sslcrl",
					    "sslcrldir",
					    "sslkey",
					    "sslmode",
					    "sslnegotiation",
					    "sslpassword",
					    "sslrootcert",
					    "sslsni",
					    "target_session_attrs",
					    "tcp_user_timeout",
					    "user",
					    "driver",
					    "encrypt",
					    "trust_server_certificate"};
	static const char *const known[] = {"inbox", "inbox_retention", NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	char text[200];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(text, sizeof(text), "postgres://h/db?%s=x&inbox=q",
			       names[i]);
		WHERRY_PASS(wh_url_check_parameters(text, known, &err));
	}
}

WHERRY_TEST(a_password_is_masked)
{
	static const char *const rows[][2] = {
		{"postgres://me:secret@host/db", "postgres://me:***@host/db"},
		{"postgres://me:s:e@c@host/db?a=b", "postgres://me:***@host/db?a=b"},
		{"amqp://:secret@host", "amqp://:***@host"},
		{"postgres://me@host:5432/db", "postgres://me@host:5432/db"},
		{"postgres://host:5432/a@b", "postgres://host:5432/a@b"},
		{"sqlite:shop.db", "sqlite:shop.db"},
		{"sqlite:/a:b@c", "sqlite:/a:b@c"},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[80];

		wh_url_mask(rows[i][0], text, sizeof(text));
		assert_string_equal(text, rows[i][1]);
	}
}

WHERRY_TEST(a_password_is_masked_whatever_is_in_it)
{
	static const char *const rows[][2] = {
		{"postgres://me:a/b@host/db", "postgres://me:***@host/db"},
		{"postgres://me:a?b#c@host", "postgres://me:***@host"},
		{"postgres://me:a b@host", "postgres://me:***@host"},
		{"postgres://me:a://b@host", "postgres://me:***@host"},
		{"postgres://[::1]:80/a@b", "postgres://[::1]:80/a@b"},
		{"postgres:curl http://a:80/ http://me:pw@b/",
		 "postgres:curl http://a:80/ http://me:***@b/"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[80];

		wh_url_mask(rows[i][0], text, sizeof(text));
		assert_string_equal(text, rows[i][1]);
	}
}

WHERRY_TEST(a_secret_given_by_name_is_masked)
{
	static const char *const rows[][2] = {
		{"postgres://h/db?password=x", "postgres://h/db?password=***"},
		{"odbc:DSN=shop;Uid=me;Pwd={a;b}", "odbc:***"},
		{"odbc:DSN=shop", "odbc:DSN=shop"},
		{"postgres://h/db?a=1&password=x&b=2",
		 "postgres://h/db?a=1&password=***&b=2"},
		{"postgres://h/db?sslpassword=x#y", "postgres://h/db?sslpassword=***"},
		{"postgres://h/db?PassWord=x", "postgres://h/db?PassWord=***"},
		{"postgres://h/db?p%61ss%57ord=x", "postgres://h/db?p%61ss%57ord=***"},
		{"kafka://h/?access_token=x&secret=y",
		 "kafka://h/?access_token=***&secret=***"},
		{"kafka://h/#token=x", "kafka://h/#token=***"},
		{"kafka://h/?token=a;b c", "kafka://h/?token=***"},
		{"kafka://me:x@h/?token=y", "kafka://me:***@h/?token=***"},
		{"mssql:Server=h;Pwd=x", "mssql:Server=h;Pwd=***"},
		{"postgres:host=h password=x", "postgres:host=h password=***"},
		{"kafka://h/?token=", "kafka://h/?token=***"},
		{"kafka://h/?password&a=b", "kafka://h/?password&a=b"},
		{"kafka://h/?passwords=4", "kafka://h/?passwords=4"},
		{"kafka://h/?sslkey=client.key", "kafka://h/?sslkey=client.key"},
		{"kafka://h/?key=x&sig=y&auth=z&code=a&my-key=b",
		 "kafka://h/?key=***&sig=***&auth=***&code=***&my-key=***"},
		{"kafka://h/?tok%=x&%6=y&%zz=z", "kafka://h/?tok%=x&%6=y&%zz=z"},
		{"kafka://h/?a_name_longer_than_any_list_of_words_password=x",
		 "kafka://h/?a_name_longer_than_any_list_of_words_password=***"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[80];

		wh_url_mask(rows[i][0], text, sizeof(text));
		assert_string_equal(text, rows[i][1]);
	}
}

WHERRY_TEST(nothing_but_the_host_of_a_web_server_is_left)
{
	static const char *const rows[][2] = {
		{"https://hooks.example.com/T0/B0/S3CRET",
		 "https://hooks.example.com/***"},
		{"https://S3CRET@example.com", "https://example.com/***"},
		{"https://me:S3CRET@example.com:444/x", "https://example.com:444/***"},
		{"http://h/?code=S3CRET", "http://h/***"},
		{"http://h/?a=1", "http://h/***"},
		{"http://h/", "http://h"},
		{"http://h", "http://h"},
		{"https://${env:HOST}/x", "https://…/***"},
		{"exec:curl -H 'Authorization: S3CRET' https://h", "exec:curl ***"},
		{"exec:deliver", "exec:deliver"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[80];

		wh_url_mask(rows[i][0], text, sizeof(text));
		assert_string_equal(text, rows[i][1]);
	}
}

WHERRY_TEST(a_log_names_scheme_and_host)
{
	static const char *const rows[][2] = {
		{"https://hooks.example.com/T0/B0/S3CRET", "https://hooks.example.com"},
		{"https://S3CRET@example.com/", "https://example.com"},
		{"https://me:S3CRET@example.com:444/x?y", "https://example.com:444"},
		{"https://h/?code=S3CRET&sig=S3CRET&key=S3CRET&auth=S3CRET", "https://h"},
		{"http://[::1]:80/S3CRET", "http://[::1]:80"},
		{"http://[::1/S3CRET", "http://…"},
		{"https://h/@S3CRET", "https://…"}, /* may be a password with a / */
		{"postgres://me:S3CRET@db1:5432,db2/shop?password=S3CRET",
		 "postgres://db1:5432,db2"},
		{"postgresql://me@db/shop", "postgresql://db"},
		{"postgres:///shop?host=/run", "postgres://"},
		{"postgres://me:S3/CRET@db/shop", "postgres://…"},
		{"postgres://me:S3@CRET/x@db/shop", "postgres://…"},
		{"postgres://me:S3@CRET@db/shop", "postgres://db"},
		{"postgres://me:S3?CRET@db/shop", "postgres://…"},
		{"postgres://me:S3 CRET@db/shop", "postgres://…"},
		{"postgres://me:S3CRET", "postgres://…"},
		{"kafka://b1:9092,b2:9092?sasl.password=S3CRET",
		 "kafka://b1:9092,b2:9092"},
		{"kafka:b1:9092,b2?topic=x", "kafka://b1:9092,b2"},
		{"sqlite:/var/lib/shop.db?key=S3CRET", "sqlite:/var/lib/shop.db"},
		{"sqlite::memory:", "sqlite::memory:"},
		{"file:orders.ndjson", "file:orders.ndjson"},
		{"stdout:", "stdout:"},
		{"exec:/usr/bin/curl -u me:S3CRET h", "exec:curl"},
		{"exec: TOKEN=S3CRET deliver", "exec:deliver"},
		{"exec:TOKEN='S3 CRET' A=\"S3 CRET\" B=S3\\ CRET ./deliver.sh x",
		 "exec:deliver.sh"},
		{"exec:TOKEN='S3 CRET", "exec:…"},
		{"exec:$S3CRET/x", "exec:…"},
		{"exec:'S3 CRET' x", "exec:…"},
		{"exec:cat>S3CRET", "exec:cat"},
		{"exec:", "exec:…"},
		{"amqp://me:S3CRET@h/v?password=S3CRET", "amqp://h"},
		{"redis://me:S3CRET@h1:6379,h2/0?stream=S3CRET", "redis://h1:6379,h2"},
		{"rediss+sentinel://:S3CRET@h1,h2/master", "rediss+sentinel://h1,h2"},
		{"stomp://me:S3CRET@h", "stomp:…"},
		{"S3CRET", "…"}, /* no URL */
		{"", "…"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[80];

		wh_url_show(rows[i][0], text, sizeof(text));
		assert_string_equal(text, rows[i][1]);
		for (size_t cap = 1; cap < 20; cap++) {
			wh_url_show(rows[i][0], text, cap);
			assert_true(strlen(text) < cap);
			assert_int_equal(strncmp(text, rows[i][1], strlen(text)), 0);
		}
	}
}

WHERRY_TEST(hosts_never_contain_a_password)
{
	static const char *const rows[][2] = {
		{"//ann:secret@db1:5432,db2/shop", "db1:5432,db2"},
		{"//ann:se@cret@db1/shop", "db1"},
		{"//[::1]:6379/0", "[::1]:6379"},
		{"//ann:se/cret@db1/shop", NULL},
		{"//ann:se?cret@db1/shop", NULL},
		{"//ann:se#cret@db1/shop", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		wh_view hosts = wh_url_hosts(rows[i][0]);

		assert_true(wh_view_eq(hosts, wh_view_of(rows[i][1])));
	}
}

WHERRY_TEST(a_masked_url_fits_its_room)
{
	char text[20];

	wh_url_mask("postgres://me:secret@host/db", text, sizeof(text));
	assert_string_equal(text, "postgres://me:***@h");
	wh_url_mask("x://a/?token=b", text, 2);
	assert_string_equal(text, "x");
}

WHERRY_TEST(a_printed_command_names_the_table_behind_a_secret)
{
	static const char *const rows[][2] = {
		{"postgres://me@h/db?password=x#jobs", "postgres://me@h/db#jobs"},
		{"postgresql://me:x@h/db#jobs", "postgresql://me@h/db#jobs"},
		{"postgres://h/db?a=b&sslpassword=x#later/mail",
		 "postgres://h/db?a=b#later/mail"},
		{"mssql://h/db?pwd=x&a=b#s.jobs", "mssql://h/db?a=b#s.jobs"},
		{"sqlite:a.db#jobs", "sqlite:a.db#jobs"},
		{"postgres://h/db?password=a#b&c=d", "postgres://h/db?c=d"},
		/* No database: what follows the # may be a part of the secret. */
		{"kafka://h/?sasl.password=a#b", "kafka://h/"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *shown = wh_url_without_secrets(rows[i][0]);

		assert_string_equal(shown, rows[i][1]);
		free(shown);
	}
}

WHERRY_TEST_MAIN
