/*
 * A disk that can lose its power.
 *
 * disk_record() puts a VFS in front of SQLite's own that hands everything on (locks and
 * shared memory too) and notes what reaches the files: writes, truncations, syncs, and
 * names that come and go.  Afterwards disk_lose() makes, for any moment of what was noted,
 * files as a power loss at that moment could have left them:
 *
 *   - what was synced is there;
 *   - of what was not, each piece of 512 or 4096 bytes is as it was at some time since the
 *     last sync of its file, the last write to it torn at times;
 *   - a file's size is one that it had since; bytes it gained that were never written
 *     are zero, or garbage;
 *   - a file made or deleted since its folder was synced is there or is not.
 *
 * The folder is synced where SQLite says so: when a file is deleted for good, and with the
 * first sync of a new journal or log.  Clock and randomness of the VFS are made up as well,
 * so that a seed gives the same run again.
 */
#ifndef POWER_DISK_H
#define POWER_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DISK_NAMES = 4, DISK_INODES = 256 };

/* What happened, one after the other. */
typedef enum disk_kind {
	DISK_WRITE,
	DISK_TRUNCATE,
	DISK_SYNC,
	DISK_CREATE,
	DISK_DELETE,
	DISK_SYNC_FOLDER
} disk_kind;

typedef struct disk_op {
	disk_kind kind;
	int name, inode;
	size_t at, len; /* at: the new size, of a truncation */
	unsigned char *data;
} disk_op;

/* How much of what was not synced is there. */
typedef enum disk_mood {
	DISK_NONE,    /* nothing */
	DISK_ALL,     /* all: a process that was killed */
	DISK_ORDERED, /* what came before some moment */
	DISK_WILD,    /* each piece for itself */
	DISK_MOODS
} disk_mood;

typedef struct disk disk;

/* Notes come from here on; SQLite opens its files through it until disk_stop(). */
disk *disk_record(uint64_t seed);
void disk_stop(disk *d); /* twice is fine */
void disk_free(disk *d);

size_t disk_length(const disk *d); /* how much was noted: the present moment */
disk_kind disk_kind_at(const disk *d, size_t moment);

/* The made-up clock, Unix time in microseconds. */
int64_t disk_clock_us(const disk *d);
void disk_pass(disk *d, int64_t us);

/* From 0 to n - 1, by the seed. */
uint64_t disk_random(uint64_t *state);
size_t disk_pick(uint64_t *state, size_t n);

/* Write the files to a folder, as left by a loss after the first `moment` notes.  Moments
 * must not go back. */
void disk_lose(disk *d, size_t moment, disk_mood mood, uint64_t *random,
	       const char *folder);

#endif
