#include "cli/cli.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GAP = 2 };

void wh_table_begin(wh_table *table, const wh_table_column *columns, size_t n_columns)
{
	assert(n_columns <= WH_TABLE_COLUMNS);
	memset(table, 0, sizeof(*table));
	table->columns = columns;
	table->n_columns = n_columns;
	table->terminal = wh_terminal_width(STDOUT_FILENO);
	for (size_t i = 0; i < n_columns; i++)
		table->width[i] = strlen(columns[i].title);
}

/* Columns that are left for cell i of a line on a terminal; 0: no limit. */
static size_t room(const wh_table *table, size_t i, size_t used)
{
	size_t most = table->columns[i].most;

	if (!table->terminal)
		return 0;
	if (used + 1 >= table->terminal)
		return 1;
	if (!most || most > table->terminal - used)
		most = table->terminal - used;
	return most;
}

static void put_blanks(wh_buf *line, size_t n)
{
	while (n--)
		wh_buf_putc(line, ' ');
}

/* Append a cell with its colour.  Titles have no colour. */
static void put_painted(wh_buf *line, const wh_table *table, size_t i, const char *cell)
{
	wh_paint (*paint)(const char *) = table->columns[i].paint;
	wh_paint how = paint && table->begun ? paint(cell) : WH_PLAIN;

	wh_buf_puts(line, how == WH_PLAIN ? "" : wh_painted(how));
	wh_buf_puts(line, cell);
	wh_buf_puts(line, how == WH_PLAIN ? "" : wh_painted(WH_PLAIN));
}

static void write_line(const wh_table *table, const char *const *cells)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);
	size_t used = 0;

	for (size_t i = 0; i < table->n_columns; i++) {
		wh_buf cell = WH_BUF_INIT(WH_OUTPUT_MOST);
		size_t width, pad;

		if (table->terminal && used + GAP >= table->terminal)
			break;
		wh_put_cell(&cell, cells[i], room(table, i, used));
		width = wh_columns(wh_buf_str(&cell));
		pad = table->width[i] > width ? table->width[i] - width : 0;
		if (table->columns[i].right)
			put_blanks(&line, pad);
		put_painted(&line, table, i, wh_buf_into(&cell, &line));
		if (i + 1 < table->n_columns && !table->columns[i].right)
			put_blanks(&line, pad);
		if (i + 1 < table->n_columns)
			put_blanks(&line, GAP);
		used += width + pad + GAP;
		wh_buf_clear(&cell);
	}
	while (line.len && line.ptr[line.len - 1] == ' ')
		line.ptr[--line.len] = 0;
	wh_print_buf(&line, "\n");
	wh_buf_clear(&line);
}

/* Set the widths from the rows that wait when the first line is written. */
static void settle(wh_table *table)
{
	const char *titles[WH_TABLE_COLUMNS];

	for (size_t i = 0; i < table->n_columns; i++) {
		size_t most = table->columns[i].most;

		titles[i] = table->columns[i].title;
		for (size_t row = 0; row < table->n_rows; row++) {
			const char *cell = table->cells[row][i];
			size_t width = cell ? wh_columns(cell) : 0;

			if (table->terminal && most && width > most)
				width = most;
			if (width > table->width[i])
				table->width[i] = width;
		}
	}
	write_line(table, titles);
	table->begun = true;
}

static void flush(wh_table *table)
{
	if (!table->begun && table->n_rows)
		settle(table);
	for (size_t row = 0; row < table->n_rows; row++) {
		const char *cells[WH_TABLE_COLUMNS];

		for (size_t i = 0; i < table->n_columns; i++)
			cells[i] = table->cells[row][i] ? table->cells[row][i] : "?";
		write_line(table, cells);
		for (size_t i = 0; i < table->n_columns; i++)
			free(table->cells[row][i]);
	}
	table->n_rows = 0;
}

void wh_table_add(wh_table *table, const char *const *cells)
{
	if (table->n_rows == WH_TABLE_ROWS)
		flush(table);
	for (size_t i = 0; i < table->n_columns; i++) {
		const char *text = cells[i] ? cells[i] : "?";
		size_t len = strlen(text);
		wh_buf cell = WH_BUF_INIT(6 * len + 1); /* as an escape is long */

		wh_put_escaped(&cell, text, len);
		table->cells[table->n_rows][i] = strdup(wh_buf_str(&cell));
		wh_buf_clear(&cell);
	}
	table->n_rows++;
}

void wh_table_end(wh_table *table)
{
	flush(table);
}
