#include "cli/cli.h"

#include <errno.h>
#include <string.h>

wh_exit wh_read_file(wh_buf *to, const char *from)
{
	FILE *file = strcmp(from, "-") == 0 ? stdin : fopen(from, "re");
	char chunk[4096];
	size_t n;
	bool failed;

	if (!file)
		return wh_complain(NULL, "%s: %s", from, strerrordesc_np(errno));
	/* Ctrl-D ends the input of a terminal.  Another fread() would wait for a second
	 * Ctrl-D. */
	while (!feof(file) && (n = fread(chunk, 1, sizeof(chunk), file)) > 0)
		wh_buf_put(to, chunk, n);
	failed = ferror(file) != 0;
	if (file != stdin)
		(void)fclose(file);
	return failed ? wh_complain(NULL, "%s cannot be read", from) : WH_EXIT_DONE;
}
