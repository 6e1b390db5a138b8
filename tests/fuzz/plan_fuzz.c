/* wherry.yaml: a file that is refused says why, with a place, in lines of plain text.  One that is
 * accepted is printed, and entries of cron that are printed can be read again. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "daemon/plan.h"

static wherry_code read_bytes(const void *data, size_t len, wh_plan *out,
			      wh_buf *problems)
{
	int fd = memfd_create("plan", MFD_CLOEXEC);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	char path[64];

	CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	code = wh_plan_read(path, out, problems, &err);
	CHECK(code == WHERRY_OK || *err.message);
	CHECK(code != WHERRY_INVALID || problems->len);
	for (const char *p = wh_buf_str(problems); *p; p += strcspn(p, "\n") + 1)
		CHECK(strncmp(p, path, strlen(path)) == 0);
	(void)close(fd);
	return code;
}

static void check_printed(const wh_plan *plan)
{
	wh_buf text = WH_BUF_INIT(4 * 1024 * 1024), problems = WH_BUF_INIT(64 * 1024);
	wh_plan again;

	wh_plan_print(plan, &text);
	CHECK(wh_buf_check(&text, NULL) == WHERRY_OK);
	if (!plan->n_relays &&
	    !strstr(wh_buf_str(&text), "***")) { /* no secret is masked */
		CHECK(read_bytes(text.ptr, text.len, &again, &problems) == WHERRY_OK);
		CHECK(again.n_crons == plan->n_crons);
		for (size_t i = 0; i < plan->n_crons; i++)
			CHECK(wh_plan_cron_same(&plan->crons[i], &again.crons[i]));
		wh_plan_clear(&again);
	}
	wh_buf_clear(&problems);
	wh_buf_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	wh_buf problems = WH_BUF_INIT(64 * 1024);
	wh_plan plan;

	if (memmem(data, len, "${", 2)) /* it could read any file */
		return 0;
	if (read_bytes(data, len, &plan, &problems) == WHERRY_OK) {
		check_printed(&plan);
		wh_plan_clear(&plan);
	}
	wh_buf_clear(&problems);
	return 0;
}
