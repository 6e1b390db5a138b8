/*
 * Runs the files of a folder through a fuzz target with any compiler, as an ordinary
 * test: an input that once crashed becomes a test by being copied there.
 */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

static int replay(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL;
	size_t len = 0, cap = 0;

	if (!file)
		return -1;
	do {
		cap += 65536;
		data = realloc(data, cap);
		if (!data)
			abort();
		len += fread(data + len, 1, cap - len, file);
	} while (len == cap);
	(void)fclose(file);
	data = realloc(data, len ? len : 1); /* so that a sanitizer sees the end */
	(void)LLVMFuzzerTestOneInput(data, len);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	struct dirent **names = NULL;
	int n = argc > 1 ? scandir(argv[1], &names, NULL, alphasort) : -1;
	int tests = 0, failed = 0;

	for (int i = 0; i < n; i++) {
		char path[4096];

		if (names[i]->d_name[0] != '.') {
			(void)snprintf(path, sizeof(path), "%s/%s", argv[1],
				       names[i]->d_name);
			tests++;
			if (replay(path) == 0) {
				(void)printf("ok %d - %s\n", tests, names[i]->d_name);
			} else {
				(void)printf("not ok %d - %s\n", tests, names[i]->d_name);
				failed++;
			}
			(void)fflush(stdout);
		}
		free(names[i]);
	}
	free(names);
	(void)printf("1..%d\n", tests);
	return failed || tests == 0;
}
