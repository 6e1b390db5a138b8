#include "webhook_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { ARGS_MOST = 24 };

const char *webhook_server_script(void)
{
	static char path[400];
	const char *source = getenv("WHERRY_SOURCE");

	if (source)
		(void)snprintf(path, sizeof(path), "%s/tests/webhook/server.py", source);
	else
		(void)snprintf(path, sizeof(path), "%.*s../webhook/server.py",
			       (int)(strrchr(__FILE__, '/') + 1 - __FILE__), __FILE__);
	return path;
}

static void launch(webhook_server *server)
{
	const char *argv[ARGS_MOST] = {"python3", webhook_server_script(), "--log",
				       server->temp.path};
	char port[16], line[32];
	int to[2], from[2];
	size_t n = 4;

	for (size_t i = 0; server->args && server->args[i] && n < ARGS_MOST - 3; i++)
		argv[n++] = server->args[i];
	(void)snprintf(port, sizeof(port), "%d", server->port);
	argv[n++] = "--port";
	argv[n++] = port;
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	(void)fflush(stdout);
	server->pid = fork();
	assert_true(server->pid >= 0);
	if (!server->pid) {
		(void)dup2(to[0], STDIN_FILENO);
		(void)dup2(from[1], STDOUT_FILENO);
		(void)execvp("python3", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	server->in = fdopen(to[1], "w");
	server->out = fdopen(from[0], "r");
	assert_non_null(fgets(line, sizeof(line), server->out));
	server->port = (int)strtol(line, NULL, 10);
}

webhook_server *webhook_server_start(const char *const *args)
{
	webhook_server *server = calloc(1, sizeof(*server));

	assert_non_null(server);
	(void)setenv("NO_PROXY", "*", 1);
	(void)wherry_temp_make(&server->temp, "log");
	server->args = args;
	launch(server);
	return server;
}

static void close_pipes(webhook_server *server)
{
	(void)fclose(server->in);
	(void)fclose(server->out);
	(void)waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

void webhook_server_kill(webhook_server *server)
{
	(void)kill(server->pid, SIGKILL);
	close_pipes(server);
}

void webhook_server_again(webhook_server *server)
{
	launch(server);
}

void webhook_server_stop(webhook_server *server)
{
	if (server->pid)
		close_pipes(server);
	wherry_temp_clear(&server->temp);
	free(server);
}

void webhook_server_answer(webhook_server *server, const char *answer)
{
	char line[32] = "";

	(void)fprintf(server->in, "%s\n", answer);
	(void)fflush(server->in);
	assert_non_null(fgets(line, sizeof(line), server->out));
	assert_string_equal(line, "ok\n");
}

json_t *webhook_server_log(const webhook_server *server)
{
	json_t *all = json_array();
	FILE *file = fopen(server->temp.path, "re");
	char *line = NULL;
	size_t cap = 0;

	while (file && getline(&line, &cap, file) > 0) {
		json_t *entry = json_loads(line, 0, NULL);

		if (entry) /* else it was killed while it wrote */
			assert_int_equal(json_array_append_new(all, entry), 0);
	}
	free(line);
	if (file)
		(void)fclose(file);
	return all;
}

/* ---- certificates ---- */

static wherry_temp certificates;

/* Its own issuer each; the expired one by way of a request, since only that has dates. */
static const char make[] =
	"cd %s && exec 2>>log && cert() { "
	"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
	"-keyout $1.key -out $1.pem -subj /CN=$1 -days \"$3\" "
	"-addext subjectAltName=$2; } && "
	"cert good IP:127.0.0.1,DNS:localhost 2 && cert other DNS:example.com 2 && "
	"cert client DNS:client 2 && cat client.key >>client.pem && "
	"openssl req -new -key good.key -subj /CN=expired -out expired.csr && "
	"mkdir -p ca && : >ca/index && echo 01 >ca/serial && "
	"printf '[ca]\\ndefault_ca=c\\n[c]\\ndatabase=ca/index\\nserial=ca/serial\\n"
	"new_certs_dir=ca\\ndefault_md=sha256\\npolicy=p\\nx509_extensions=x\\n[p]\\n"
	"commonName=supplied\\n[x]\\nsubjectAltName=IP:127.0.0.1\\n' >ca.cnf && "
	"openssl ca -batch -config ca.cnf -selfsign -keyfile good.key -in expired.csr "
	"-startdate 20200101000000Z -enddate 20200102000000Z -notext -out expired.pem "
	">>log && cp good.key expired.key";

const char *webhook_certificate(const char *name)
{
	static char paths[4][200];
	static unsigned next;
	char *path = paths[next++ % 4], command[2048];

	if (!*certificates.dir) {
		(void)wherry_temp_make(&certificates, "x");
		(void)snprintf(command, sizeof(command), make, certificates.dir);
		assert_int_equal(system(command), 0);
	}
	(void)snprintf(path, sizeof(paths[0]), "%s/%s", certificates.dir, name);
	return path;
}

void webhook_certificates_clear(void)
{
	if (*certificates.dir)
		wherry_temp_clear(&certificates);
	*certificates.dir = 0;
}
