#include "cli/cli.h"

#include <string.h>

enum { WIDTH = 88, NAME_COLUMNS = 26 };

/* Bytes up to the next blank outside of brackets. */
static size_t word_len(const char *text)
{
	size_t n = 0;
	int depth = 0;

	for (; text[n] && (text[n] != ' ' || depth > 0); n++)
		depth += (text[n] == '[') - (text[n] == ']');
	return n;
}

void wh_print_wrapped(const char *head, int indent, const char *text)
{
	int used = printf("%s", head);

	if (used >= indent && indent > 0) {
		(void)putchar('\n');
		used = 0;
	}
	(void)printf("%*s", indent - used, "");
	used = indent;
	while (*text) {
		int n = (int)word_len(text);

		if (used > indent && used + 1 + n > WIDTH) {
			(void)printf("\n%*s", indent, "");
			used = indent;
		}
		used += printf("%s%.*s", used > indent ? " " : "", n, text);
		text += n;
		text += strspn(text, " ");
	}
	(void)putchar('\n');
}

void wh_print_paragraphs(const char *text)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

	while (*text) {
		size_t n = strcspn(text, "\n");

		wh_buf_reset(&line);
		wh_buf_put(&line, text, n);
		if (*text == ' ' || n == 0)
			wh_print_buf(&line, "\n");
		else
			wh_print_wrapped("", 0, wh_buf_str(&line));
		text += n + (text[n] == '\n');
	}
	wh_buf_clear(&line);
}

/* The help of an option, with the bounds and the default of the setting it stands for. */
static void put_option(wh_buf *text, const wh_option *o)
{
	const wherry_setting *s = wh_setting_find(o->setting);

	wh_buf_puts(text, o->help ? o->help : s ? s->help : "");
	if (o->flags & WH_REQUIRED)
		wh_buf_puts(text, " Required.");
	if (o->flags & WH_REPEAT)
		wh_buf_puts(text, " May be repeated.");
	if (s && s->range[0])
		wh_buf_printf(text, " (%s; default %s)", s->range, s->standard);
	else if (s && s->standard[0])
		wh_buf_printf(text, " (default %s)", s->standard);
}

static void print_option(const wh_option *o)
{
	wh_buf text = WH_BUF_INIT(4096);
	char head[64], brief[8] = "", flag = wh_option_short(o->name);

	if (flag)
		(void)snprintf(brief, sizeof(brief), ", -%c", flag);
	(void)snprintf(head, sizeof(head), "  --%s%s%s%s%s", o->name, brief,
		       strcmp(o->name, "json") == 0 ? ", -o json" : "",
		       o->value ? " " : "", o->value ? o->value : "");
	put_option(&text, o);
	wh_print_wrapped(head, NAME_COLUMNS, wh_buf_str(&text));
	wh_buf_clear(&text);
}

void wh_print_help(const wh_command *command)
{
	char head[64];

	(void)printf("%s.\n\n", command->brief);
	(void)snprintf(head, sizeof(head), "usage: wherry %s", command->name);
	wh_print_wrapped(head, (int)strlen(head) + 1, command->synopsis);
	(void)putchar('\n');
	wh_print_paragraphs(command->help);
	if (command->words) {
		(void)printf("\nCommands:\n");
		for (const wh_command *const *c = command->words; *c; c++) {
			(void)snprintf(head, sizeof(head), "  %s", (*c)->name);
			wh_print_wrapped(head, NAME_COLUMNS, (*c)->brief);
		}
		return;
	}
	(void)printf("\nOptions:\n");
	for (const wh_option *o = command->options; o && o->name; o++)
		print_option(o);
	for (const wh_option *o = wh_common_options; !command->plain && o->name; o++)
		print_option(o);
	print_option(&(wh_option){"help", NULL, "Show this.", NULL, 0});
}
