/*
 * What record.c notes and lose.c reads.
 */
#ifndef POWER_DISK_NOTES_H
#define POWER_DISK_NOTES_H

#include "wherry_test.h"

#include <sqlite3.h>

#include "disk.h"

typedef struct disk_bytes {
	unsigned char *ptr;
	size_t len, cap;
} disk_bytes;

/* A file, whatever its names. */
typedef struct disk_inode {
	disk_bytes stable; /* as of its last sync */
	size_t *pending;   /* numbers of the notes since */
	size_t n_pending, cap_pending;
} disk_inode;

struct disk {
	sqlite3_vfs vfs;
	sqlite3_vfs *real;
	bool recording;
	uint64_t random;
	int64_t clock_us;

	disk_op *ops;
	size_t n, cap;
	char names[DISK_NAMES][32];
	int inode_of[DISK_NAMES]; /* at the present moment of the recording; -1: none */
	int n_names, n_inodes;

	/* lose.c: as of `moment` */
	size_t moment;
	disk_inode inodes[DISK_INODES];
	int stable_name
		[DISK_NAMES]; /* the inode, as of the folder's last sync; -1: none */
	size_t *folder;       /* numbers of the notes since */
	size_t n_folder, cap_folder;
	bool begun;
};

#endif
