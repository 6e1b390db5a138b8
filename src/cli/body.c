#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

wh_exit wh_read_file(wh_buf *to, const char *from)
{
	FILE *file = strcmp(from, "-") == 0 ? stdin : fopen(from, "re");
	char chunk[4096];
	size_t n;
	bool failed;

	if (!file)
		return wh_complain(NULL, "%s: %s", from, wh_errno_text(errno));
	/* Ctrl-D ends the input of a terminal.  Another fread() would wait for a second
	 * Ctrl-D. */
	while (!feof(file) && (n = fread(chunk, 1, sizeof(chunk), file)) > 0)
		wh_buf_put(to, chunk, n);
	failed = ferror(file) != 0;
	if (file != stdin)
		(void)fclose(file);
	return failed ? wh_complain(NULL, "%s cannot be read", from) : WH_EXIT_DONE;
}

wh_exit wh_read_body(wh_buf *to, const wh_args *args, size_t operand, size_t most)
{
	const char *body = wh_operand(args, operand), *from = wh_arg(args, "from");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = WH_EXIT_DONE;

	/* A body that is not much too long is read whole, so that the library can say how
	 * long it is. */
	*to = (wh_buf)WH_BUF_INIT(4 * most);
	if (body && from)
		return wh_usage(args->command,
				"a body is given, and --from too: only one of them");
	if (!body && !from && isatty(STDIN_FILENO))
		(void)fputs("reading the body from standard input, which Ctrl-D ends\n",
			    stderr);
	if (body && strcmp(body, "-") != 0)
		wh_buf_puts(to, body);
	else
		status = wh_read_file(to, from ? from : "-");
	if (status == WH_EXIT_DONE && wh_buf_check(to, &err) != WHERRY_OK)
		status = wh_complain(NULL, "the body is over %zu bytes, the limit is %zu",
				     4 * most, most);
	return status;
}
