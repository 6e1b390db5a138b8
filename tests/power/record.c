/*
 * The half of disk.h that notes: the VFS.
 */
#include "disk_notes.h"

#include <stdlib.h>
#include <string.h>

/* A file of the VFS's; the real one lies behind it. */
typedef struct shim {
	sqlite3_file base;
	disk *d;
	int inode;         /* -1: a temporary file, not noted */
	bool folder_dirty; /* its first sync also syncs the folder */
} shim;

enum { START_S = 1577836800 }; /* 2020: leases and retries of then are long due */

static sqlite3_file *real(sqlite3_file *file)
{
	return (sqlite3_file *)((shim *)file + 1);
}

/* ---- the notes ---- */

static void note(disk *d, disk_op op, const void *data)
{
	if (d->n == d->cap) {
		d->cap = d->cap ? d->cap * 2 : 4096;
		d->ops = realloc(d->ops, d->cap * sizeof(*d->ops));
		assert_non_null(d->ops);
	}
	if (data) {
		op.data = malloc(op.len ? op.len : 1);
		assert_non_null(op.data);
		memcpy(op.data, data, op.len);
	}
	d->ops[d->n++] = op;
}

/* "-wal" of "/tmp/x/power.db-wal" */
static int name_of(disk *d, const char *path)
{
	const char *base = strrchr(path, '/');
	int i;

	base = base ? base + 1 : path;
	for (i = 0; i < d->n_names; i++)
		if (strcmp(d->names[i], base) == 0)
			return i;
	assert_true(i < DISK_NAMES);
	(void)snprintf(d->names[i], sizeof(d->names[i]), "%.31s", base);
	d->inode_of[i] = -1;
	d->n_names++;
	return i;
}

/* ---- files ---- */

static int shim_close(sqlite3_file *file)
{
	int rc = real(file)->pMethods->xClose(real(file));

	file->pMethods = NULL;
	return rc;
}

static int shim_read(sqlite3_file *file, void *to, int len, sqlite3_int64 at)
{
	return real(file)->pMethods->xRead(real(file), to, len, at);
}

static int shim_write(sqlite3_file *file, const void *from, int len, sqlite3_int64 at)
{
	shim *s = (shim *)file;
	int rc = real(file)->pMethods->xWrite(real(file), from, len, at);

	if (rc == SQLITE_OK && s->inode >= 0)
		note(s->d,
		     (disk_op){
			     .kind = DISK_WRITE,
			     .inode = s->inode,
			     .at = (size_t)at,
			     .len = (size_t)len,
		     },
		     from);
	return rc;
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	shim *s = (shim *)file;
	int rc = real(file)->pMethods->xTruncate(real(file), size);

	if (rc == SQLITE_OK && s->inode >= 0)
		note(s->d,
		     (disk_op){
			     .kind = DISK_TRUNCATE,
			     .inode = s->inode,
			     .at = (size_t)size,
		     },
		     NULL);
	return rc;
}

/* The real file is not synced: its power does not fail. */
static int shim_sync(sqlite3_file *file, int flags)
{
	shim *s = (shim *)file;

	if (s->inode < 0)
		return SQLITE_OK;
	note(s->d, (disk_op){.kind = DISK_SYNC, .inode = s->inode}, NULL);
	if (s->folder_dirty)
		note(s->d, (disk_op){.kind = DISK_SYNC_FOLDER}, NULL);
	s->folder_dirty = false;
	return SQLITE_OK;
}

static int shim_size(sqlite3_file *file, sqlite3_int64 *out)
{
	return real(file)->pMethods->xFileSize(real(file), out);
}

static int shim_lock(sqlite3_file *file, int lock)
{
	return real(file)->pMethods->xLock(real(file), lock);
}

static int shim_unlock(sqlite3_file *file, int lock)
{
	return real(file)->pMethods->xUnlock(real(file), lock);
}

static int shim_reserved(sqlite3_file *file, int *out)
{
	return real(file)->pMethods->xCheckReservedLock(real(file), out);
}

static int shim_control(sqlite3_file *file, int op, void *arg)
{
	return real(file)->pMethods->xFileControl(real(file), op, arg);
}

static int shim_sector(sqlite3_file *file)
{
	return real(file)->pMethods->xSectorSize(real(file));
}

static int shim_device(sqlite3_file *file)
{
	return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static int shim_map(sqlite3_file *file, int region, int size, int extend,
		    void volatile **out)
{
	return real(file)->pMethods->xShmMap(real(file), region, size, extend, out);
}

static int shim_shm_lock(sqlite3_file *file, int at, int n, int flags)
{
	return real(file)->pMethods->xShmLock(real(file), at, n, flags);
}

static void shim_barrier(sqlite3_file *file)
{
	real(file)->pMethods->xShmBarrier(real(file));
}

static int shim_unmap(sqlite3_file *file, int delete)
{
	return real(file)->pMethods->xShmUnmap(real(file), delete);
}

/* Version 2: no memory-mapped reads and so no writes that go unseen. */
static const sqlite3_io_methods shim_methods = {
	.iVersion = 2,
	.xClose = shim_close,
	.xRead = shim_read,
	.xWrite = shim_write,
	.xTruncate = shim_truncate,
	.xSync = shim_sync,
	.xFileSize = shim_size,
	.xLock = shim_lock,
	.xUnlock = shim_unlock,
	.xCheckReservedLock = shim_reserved,
	.xFileControl = shim_control,
	.xSectorSize = shim_sector,
	.xDeviceCharacteristics = shim_device,
	.xShmMap = shim_map,
	.xShmLock = shim_shm_lock,
	.xShmBarrier = shim_barrier,
	.xShmUnmap = shim_unmap,
};

/* ---- the VFS ---- */

static disk *of(sqlite3_vfs *vfs)
{
	return vfs->pAppData;
}

/* A file that SQLite makes: a new one under that name. */
static void note_new(disk *d, shim *s, int name, int flags)
{
	assert_true(d->n_inodes < DISK_INODES);
	d->inode_of[name] = d->n_inodes++;
	note(d,
	     (disk_op){
		     .kind = DISK_CREATE,
		     .name = name,
		     .inode = d->inode_of[name],
	     },
	     NULL);
	s->folder_dirty = (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL |
				    SQLITE_OPEN_SUPER_JOURNAL)) != 0;
}

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename path, sqlite3_file *file,
		    int flags, int *out_flags)
{
	disk *d = of(vfs);
	shim *s = (shim *)file;
	int rc = d->real->xOpen(d->real, path, real(file), flags, out_flags);

	file->pMethods = NULL;
	if (!real(file)->pMethods)
		return rc;
	file->pMethods = &shim_methods;
	s->d = d;
	s->inode = -1;
	s->folder_dirty = false;
	if (rc != SQLITE_OK || !path || (flags & SQLITE_OPEN_DELETEONCLOSE))
		return rc;
	if (d->inode_of[name_of(d, path)] < 0)
		note_new(d, s, name_of(d, path), flags);
	s->inode = d->inode_of[name_of(d, path)];
	return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_folder)
{
	disk *d = of(vfs);
	int name = name_of(d, path), rc = d->real->xDelete(d->real, path, 0);

	if (rc != SQLITE_OK)
		return rc;
	note(d, (disk_op){.kind = DISK_DELETE, .name = name}, NULL);
	d->inode_of[name] = -1;
	if (sync_folder)
		note(d, (disk_op){.kind = DISK_SYNC_FOLDER}, NULL);
	return rc;
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *out)
{
	return of(vfs)->real->xAccess(of(vfs)->real, path, flags, out);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int cap, char *out)
{
	return of(vfs)->real->xFullPathname(of(vfs)->real, path, cap, out);
}

static int vfs_random(sqlite3_vfs *vfs, int len, char *out)
{
	for (int i = 0; i < len; i++)
		out[i] = (char)disk_random(&of(vfs)->random);
	return len;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
	disk_pass(of(vfs), us);
	return us;
}

/* Milliseconds since noon in Greenwich on November 24, 4714 B.C. */
static int vfs_now(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
	*out = 210866760000000 + disk_clock_us(of(vfs)) / 1000;
	return SQLITE_OK;
}

static int vfs_now_days(sqlite3_vfs *vfs, double *out)
{
	sqlite3_int64 ms = 0;
	int rc = vfs_now(vfs, &ms);

	*out = (double)ms / 86400000.0;
	return rc;
}

static int vfs_last_error(sqlite3_vfs *vfs, int len, char *out)
{
	return of(vfs)->real->xGetLastError(of(vfs)->real, len, out);
}

disk *disk_record(uint64_t seed)
{
	disk *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	d->random = seed;
	d->clock_us = START_S * 1000000LL;
	d->real = sqlite3_vfs_find(NULL);
	d->vfs = (sqlite3_vfs){
		.iVersion = 2,
		.szOsFile = (int)sizeof(shim) + d->real->szOsFile,
		.mxPathname = d->real->mxPathname,
		.zName = "power",
		.pAppData = d,
		.xOpen = vfs_open,
		.xDelete = vfs_delete,
		.xAccess = vfs_access,
		.xFullPathname = vfs_full_path,
		.xRandomness = vfs_random,
		.xSleep = vfs_sleep,
		.xCurrentTime = vfs_now_days,
		.xCurrentTimeInt64 = vfs_now,
		.xGetLastError = vfs_last_error,
	};
	(void)sqlite3_randomness(0, NULL); /* asks the VFS anew */
	assert_int_equal(sqlite3_vfs_register(&d->vfs, 1), SQLITE_OK);
	d->recording = true;
	return d;
}

void disk_stop(disk *d)
{
	if (!d->recording)
		return;
	d->recording = false;
	assert_int_equal(sqlite3_vfs_register(d->real, 1), SQLITE_OK);
	assert_int_equal(sqlite3_vfs_unregister(&d->vfs), SQLITE_OK);
	(void)sqlite3_randomness(0, NULL);
}

size_t disk_length(const disk *d)
{
	return d->n;
}

disk_kind disk_kind_at(const disk *d, size_t moment)
{
	return d->ops[moment].kind;
}

int64_t disk_clock_us(const disk *d)
{
	return d->clock_us;
}

void disk_pass(disk *d, int64_t us)
{
	d->clock_us += us;
}

/* splitmix64 */
uint64_t disk_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

size_t disk_pick(uint64_t *state, size_t n)
{
	return (size_t)(disk_random(state) % n);
}
