/* SPDX-License-Identifier: Apache-2.0
 *
 * An in-memory file system with the io table as its interface, for tests of crash safety. It counts
 * operations, lets the n-th one fail as planned, and records for every file and every directory
 * entry which part was synced. A crash keeps the synced part and none, all, or any mixture of the
 * unsynced 512-byte blocks, sizes and directory entries, in any order.
 *
 *     fault_io *disk = fault_io_create();
 *     tsr_ctx ctx = {.io = fault_io_table(disk)};
 *     fault_io_arm(disk, &(fault_plan){.kind = FAULT_CRASH_AFTER, .at = 17});
 *     …                                            after the crash every operation fails with EIO
 *     fault_io_crash(disk, FAULT_MIX, seed);       now the machine is up again
 *
 * The table's functions may be called from several threads; the fault_io_… functions from one.
 */
#ifndef TSR_TESTS_STORE_FAULT_IO_H
#define TSR_TESTS_STORE_FAULT_IO_H

#include "runtime/base/io/io.h"

typedef struct fault_io fault_io;

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_ERROR,       /* the operation fails with `error` and does nothing */
    FAULT_SYNC_DROPS,  /* like FAULT_ERROR; a failing sync marks its pages clean: earlier writes can
                          no longer become durable, and later syncs return 0 */
    FAULT_ERROR_AFTER, /* the operation is done, but returns `error` */
    FAULT_SHORT_WRITE, /* pwrite writes `part_bytes` and returns that; others are not affected */
    FAULT_CRASH_BEFORE,
    FAULT_CRASH_AFTER,
    FAULT_CALL, /* calls `call`, which acts as another process, before the operation */
} fault_kind;

typedef struct fault_plan {
    fault_kind kind;
    uint64_t at;      /* number of the operation since arming; the first is 1 */
    const char *name; /* only operations of this name are numbered; NULL: all */
    int error;
    size_t part_bytes;
    bool persistent; /* every operation from `at` on */
    void (*call)(void *user);
    void *call_user;
} fault_plan;

typedef enum fault_crash {
    FAULT_LOSE, /* only synced data remain: a power cut */
    FAULT_KEEP, /* all data remain: kill -9 */
    FAULT_MIX,  /* decided by the seed, block by block and entry by entry */
} fault_crash;

/* How the file system treats O_DIRECT. */
typedef enum fault_direct {
    FAULT_DIRECT_ALIGNED,    /* memory, offset and size are multiples of 4096, or EINVAL */
    FAULT_DIRECT_NOT_OPENED, /* open fails with EINVAL */
    FAULT_DIRECT_NOT_USED,   /* pread and pwrite fail with EINVAL */
} fault_direct;

fault_io *fault_io_create(void);
fault_io *fault_io_clone(const fault_io *disk); /* files and durability; no open files */
void fault_io_destroy(fault_io *disk);
const tsr_io *fault_io_table(fault_io *disk); /* borrowed */

void fault_io_arm(fault_io *disk, const fault_plan *plan); /* NULL: no fault; counting restarts */
/* Plans two faults at once. If both match one operation, the first decides. */
void fault_io_arm_pair(fault_io *disk, const fault_plan *first, const fault_plan *second);
uint64_t fault_io_count(const fault_io *disk);   /* operations since arming */
uint64_t fault_io_matched(const fault_io *disk); /* those that match the first plan */
bool fault_io_fired(const fault_io *disk);       /* true if a planned fault occurred */
bool fault_io_both_fired(const fault_io *disk);
bool fault_io_is_dead(const fault_io *disk); /* crashed, and not up again */
/* While a plan is armed, the file system dies after 20,000 operations: a caller retries forever.
 * True after that. */
bool fault_io_is_endless(const fault_io *disk);
size_t fault_io_open_count(const fault_io *disk); /* descriptors */
/* Above zero while this thread is inside the file system, whose own memory never fails. */
extern _Thread_local unsigned fault_io_depth;
const char *fault_io_fired_name(const fault_io *disk); /* "fsync"; "" if none */
void fault_io_crash(fault_io *disk, fault_crash crash, uint64_t seed);

/* A crash that is decided choice by choice: `choose` returns a number below `alternatives`; 0 means
 * that no unsynced data became durable. It is called for every entry of a directory and for every
 * file to choose the part that was kept: all, the size alone, or some of the blocks. If a file has
 * few unsynced blocks, each subset is an alternative. */
typedef struct fault_choice {
    unsigned (*choose)(void *user, unsigned alternatives);
    void *user;
    size_t exhaustive_blocks;
} fault_choice;
void fault_io_crash_choose(fault_io *disk, const fault_choice *choice);
unsigned fault_io_pending(const fault_io *disk);     /* files and entries that were not synced */
uint64_t fault_io_fingerprint(const fault_io *disk); /* hash of the reachable names and bytes */
void fault_io_drop_locks(fault_io *disk); /* as a lock server does that lost its memory */
void fault_io_set_fs_type(fault_io *disk, uint64_t magic);
void fault_io_set_direct(fault_io *disk, fault_direct direct);
uint64_t fault_io_direct_count(const fault_io *disk); /* direct reads and writes, refused or not */

/* Returns the bytes of a file, in place; NULL if the file does not exist. */
uint8_t *fault_io_bytes(fault_io *disk, const char *path, size_t *out_size_bytes);
/* Calls back with the path of every file. */
void fault_io_each_file(fault_io *disk, void (*file)(void *user, const char *path), void *user);
bool fault_io_remove(fault_io *disk, const char *path);

#endif
