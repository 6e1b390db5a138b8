/*
 * Messages of pgoutput written as PostgreSQL writes them: what was decoded must give the same
 * bytes again.
 */
#ifndef WHERRY_FUZZ_PGOUTPUT_H
#define WHERRY_FUZZ_PGOUTPUT_H

#include "db/postgres/pgoutput.h"

static inline void pgoutput_number(wh_buf *out, uint64_t number, unsigned size)
{
	while (size--)
		wh_buf_putc(out, (char)(uint8_t)(number >> 8 * size));
}

static inline void pgoutput_text(wh_buf *out, wh_view text)
{
	wh_buf_put(out, text.ptr, text.len);
	wh_buf_putc(out, 0);
}

static inline void pgoutput_time(wh_buf *out, int64_t at_us)
{
	pgoutput_number(out, (uint64_t)at_us - 946684800000000U, 8);
}

static inline void pgoutput_columns(wh_buf *out, wh_pgo_list columns)
{
	wh_pgo_column column;

	pgoutput_number(out, columns.n, 2);
	while (wh_pgo_next_column(&columns, &column)) {
		wh_buf_putc(out, column.key ? 1 : 0);
		pgoutput_text(out, column.name);
		pgoutput_number(out, column.type, 4);
		pgoutput_number(out, (uint32_t)column.typmod, 4);
	}
}

static inline void pgoutput_row(wh_buf *out, char letter, wh_pgo_list row)
{
	wh_pgo_value value;

	wh_buf_putc(out, letter);
	pgoutput_number(out, row.n, 2);
	while (wh_pgo_next_value(&row, &value)) {
		wh_buf_putc(out, (char)value.form);
		if (!value.data.ptr)
			continue;
		pgoutput_number(out, value.data.len, 4);
		wh_buf_put(out, value.data.ptr, value.data.len);
	}
}

static inline void pgoutput_change(wh_buf *out, const wh_pgo_message *m)
{
	pgoutput_number(out, m->oid, 4);
	if (m->old_kind)
		pgoutput_row(out, m->old_kind, m->old);
	if (m->kind != WH_PGO_DELETE)
		pgoutput_row(out, 'N', m->row);
}

static inline void pgoutput_tables(wh_buf *out, const wh_pgo_message *m)
{
	wh_pgo_list tables = m->tables;
	uint32_t oid;

	pgoutput_number(out, tables.n, 4);
	wh_buf_putc(out, (char)m->flags);
	while (wh_pgo_next_oid(&tables, &oid))
		pgoutput_number(out, oid, 4);
}

static inline void pgoutput_positions(wh_buf *out, const wh_pgo_message *m)
{
	if (m->kind == WH_PGO_COMMIT)
		wh_buf_putc(out, (char)m->flags);
	pgoutput_number(out, m->lsn, 8);
	if (m->kind == WH_PGO_COMMIT)
		pgoutput_number(out, m->end_lsn, 8);
	pgoutput_time(out, m->at_us);
	if (m->kind == WH_PGO_BEGIN)
		pgoutput_number(out, m->xid, 4);
}

static inline void pgoutput_names(wh_buf *out, const wh_pgo_message *m)
{
	pgoutput_number(out, m->oid, 4);
	pgoutput_text(out, m->schema);
	pgoutput_text(out, m->name);
	if (m->kind != WH_PGO_RELATION)
		return;
	wh_buf_putc(out, m->identity);
	pgoutput_columns(out, m->columns);
}

static inline void pgoutput_logical(wh_buf *out, const wh_pgo_message *m)
{
	wh_buf_putc(out, (char)m->flags);
	pgoutput_number(out, m->lsn, 8);
	pgoutput_text(out, m->name);
	pgoutput_number(out, m->content.len, 4);
	wh_buf_put(out, m->content.ptr, m->content.len);
}

static inline void pgoutput_write(wh_buf *out, const wh_pgo_message *m)
{
	wh_buf_putc(out, (char)m->kind);
	switch (m->kind) {
	case WH_PGO_BEGIN:
	case WH_PGO_COMMIT:
		pgoutput_positions(out, m);
		break;
	case WH_PGO_ORIGIN:
		pgoutput_number(out, m->lsn, 8);
		pgoutput_text(out, m->name);
		break;
	case WH_PGO_RELATION:
	case WH_PGO_TYPE:
		pgoutput_names(out, m);
		break;
	case WH_PGO_INSERT:
	case WH_PGO_UPDATE:
	case WH_PGO_DELETE:
		pgoutput_change(out, m);
		break;
	case WH_PGO_TRUNCATE:
		pgoutput_tables(out, m);
		break;
	case WH_PGO_LOGICAL:
		pgoutput_logical(out, m);
		break;
	}
}

#endif
