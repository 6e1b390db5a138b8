/*
 * The half of disk.h that forgets: from the notes to what is left on a disk.
 */
#include "disk_notes.h"

#include <stdlib.h>
#include <string.h>

/* How this loss treats what was not synced. */
typedef struct loss {
	const disk *d;
	disk_mood mood;
	uint64_t *random;
	size_t grain;   /* bytes that are written as one */
	size_t until;   /* DISK_ORDERED: notes before this are there */
	bool garbage;   /* what was never written is not zero */
	unsigned prone; /* of 16: pieces that are as new as can be */
} loss;

static void grow(size_t **list, size_t *n, size_t *cap, size_t value)
{
	if (*n == *cap) {
		*cap = *cap ? *cap * 2 : 64;
		*list = realloc(*list, *cap * sizeof(**list));
		assert_non_null(*list);
	}
	(*list)[(*n)++] = value;
}

/* Longer, with zeros; or shorter. */
static void resize(disk_bytes *b, size_t len)
{
	if (len > b->cap) {
		b->cap = len * 2;
		b->ptr = realloc(b->ptr, b->cap);
		assert_non_null(b->ptr);
	}
	if (len > b->len)
		memset(b->ptr + b->len, 0, len - b->len);
	b->len = len;
}

/* ---- up to a moment ---- */

static void apply(disk_bytes *b, const disk_op *op)
{
	if (op->kind == DISK_TRUNCATE) {
		resize(b, op->at);
		return;
	}
	if (op->at + op->len > b->len)
		resize(b, op->at + op->len);
	memcpy(b->ptr + op->at, op->data, op->len);
}

static void settle(disk *d, disk_inode *inode)
{
	for (size_t i = 0; i < inode->n_pending; i++)
		apply(&inode->stable, &d->ops[inode->pending[i]]);
	inode->n_pending = 0;
}

static int named(const disk_op *op)
{
	return op->kind == DISK_CREATE ? op->inode : -1;
}

static void advance(disk *d)
{
	const disk_op *op = &d->ops[d->moment];
	disk_inode *inode = &d->inodes[op->inode];

	switch (op->kind) {
	case DISK_WRITE:
	case DISK_TRUNCATE:
		grow(&inode->pending, &inode->n_pending, &inode->cap_pending, d->moment);
		break;
	case DISK_SYNC:
		settle(d, inode);
		break;
	case DISK_CREATE:
	case DISK_DELETE:
		grow(&d->folder, &d->n_folder, &d->cap_folder, d->moment);
		break;
	case DISK_SYNC_FOLDER:
		for (size_t i = 0; i < d->n_folder; i++)
			d->stable_name[d->ops[d->folder[i]].name] =
				named(&d->ops[d->folder[i]]);
		d->n_folder = 0;
		break;
	}
	d->moment++;
}

/* ---- what is left ---- */

/* How many of the first n notes of a list are there, for one piece. */
static size_t reached(const loss *l, const size_t *list, size_t n)
{
	size_t i = 0;

	switch (l->mood) {
	case DISK_NONE:
		return 0;
	case DISK_ALL:
		return n;
	case DISK_ORDERED:
		while (i < n && list[i] < l->until)
			i++;
		return i;
	case DISK_WILD:
	case DISK_MOODS:
	default:
		if (disk_pick(l->random, 16) < l->prone)
			return n;
		return disk_pick(l->random, n + 1);
	}
}

/* One piece of a file as it was after the first n of its pending notes, the next torn. */
static void fill(const loss *l, const disk_inode *inode, size_t n, size_t from, size_t to,
		 unsigned char *out)
{
	bool torn = l->mood == DISK_WILD && n < inode->n_pending &&
		    disk_pick(l->random, 8) == 0;

	for (size_t i = 0; i < n + torn; i++) {
		const disk_op *op = &l->d->ops[inode->pending[i]];
		size_t begin = op->at > from ? op->at : from;
		size_t end = op->at + op->len < to ? op->at + op->len : to;

		if (op->kind == DISK_TRUNCATE && begin < to && i < n)
			memset(out + begin, 0, to - begin);
		if (op->kind == DISK_TRUNCATE || begin >= end)
			continue;
		if (i == n)
			end = begin + disk_pick(l->random, end - begin);
		memcpy(out + begin, op->data + (begin - op->at), end - begin);
	}
}

static size_t size_after(const loss *l, const disk_inode *inode, size_t n)
{
	size_t size = inode->stable.len;

	for (size_t i = 0; i < n; i++) {
		const disk_op *op = &l->d->ops[inode->pending[i]];

		if (op->kind == DISK_TRUNCATE || op->at + op->len > size)
			size = op->at + op->len;
	}
	return size;
}

/* Given: free() it. */
static unsigned char *leave(const loss *l, const disk_inode *inode, size_t *out_len)
{
	size_t n = inode->n_pending;
	size_t len = size_after(l, inode, reached(l, inode->pending, n));
	size_t stable = inode->stable.len < len ? inode->stable.len : len;
	unsigned char *out = calloc(1, len + 1);

	assert_non_null(out);
	if (stable)
		memcpy(out, inode->stable.ptr, stable);
	for (size_t i = stable; l->garbage && i < len; i++)
		out[i] = (unsigned char)disk_random(l->random);
	for (size_t from = 0; n && from < len; from += l->grain) {
		size_t to = from + l->grain < len ? from + l->grain : len;

		fill(l, inode, reached(l, inode->pending, n), from, to, out);
	}
	*out_len = len;
	return out;
}

static void put(const char *folder, const char *name, const unsigned char *bytes,
		size_t len)
{
	char path[160];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

/* Which file a name leads to; -1: none. */
static int inode_left(const loss *l, int name)
{
	const disk *d = l->d;
	int inode = d->stable_name[name];
	size_t n = reached(l, d->folder, d->n_folder);

	for (size_t i = 0; i < n; i++)
		if (d->ops[d->folder[i]].name == name)
			inode = named(&d->ops[d->folder[i]]);
	return inode;
}

/* No disk keeps the shared memory; what lies there under its name is not to be trusted. */
static void put_stale_index(const loss *l, const char *folder, const char *name)
{
	unsigned char stale[1024];
	char shm[40];

	for (size_t i = 0; i < sizeof(stale); i++)
		stale[i] = (unsigned char)disk_random(l->random);
	(void)snprintf(shm, sizeof(shm), "%s-shm", name);
	put(folder, shm, stale, sizeof(stale));
}

static void remove_all(const disk *d, const char *folder)
{
	char path[160];

	for (int i = 0; i < d->n_names; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folder, d->names[i]);
		(void)remove(path);
		(void)snprintf(path, sizeof(path), "%s/%s-shm", folder, d->names[i]);
		(void)remove(path);
		(void)snprintf(path, sizeof(path), "%s/%s-wal", folder, d->names[i]);
		(void)remove(path);
	}
}

void disk_lose(disk *d, size_t moment, disk_mood mood, uint64_t *random,
	       const char *folder)
{
	loss l = {.d = d, .mood = mood, .random = random};

	for (int i = 0; !d->begun && i < DISK_NAMES; i++)
		d->stable_name[i] = -1;
	d->begun = true;
	assert_true(moment >= d->moment);
	while (d->moment < moment)
		advance(d);
	l.grain = disk_pick(random, 2) ? 512 : 4096;
	l.until = moment - disk_pick(random, moment < 200 ? moment + 1 : 200);
	l.garbage = mood == DISK_WILD && disk_pick(random, 2);
	l.prone = (unsigned)disk_pick(random, 17);

	remove_all(d, folder);
	for (int i = 0; i < d->n_names; i++) {
		int inode = inode_left(&l, i);
		size_t len = 0;
		unsigned char *bytes;

		if (inode < 0)
			continue;
		bytes = leave(&l, &d->inodes[inode], &len);
		put(folder, d->names[i], bytes, len);
		free(bytes);
		if (!strchr(d->names[i], '-') && disk_pick(random, 4) == 0)
			put_stale_index(&l, folder, d->names[i]);
	}
}

void disk_free(disk *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->ops[i].data);
	for (int i = 0; i < DISK_INODES; i++) {
		free(d->inodes[i].stable.ptr);
		free(d->inodes[i].pending);
	}
	free(d->ops);
	free(d->folder);
	free(d);
}
