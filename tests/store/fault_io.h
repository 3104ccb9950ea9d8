/* SPDX-License-Identifier: Apache-2.0
 *
 * A file system in memory behind the io table, for tests of crash safety. It counts operations,
 * fails the n-th one as told, and knows for every file and every directory entry what was synced: a
 * crash keeps that, and of the rest nothing, everything, or any mixture of 512-byte blocks, sizes
 * and directory entries, in any order.
 *
 *     fault_io *disk = fault_io_create();
 *     tsr_ctx ctx = {.io = fault_io_table(disk)};
 *     fault_io_arm(disk, &(fault_plan){.kind = FAULT_CRASH_AFTER, .at = 17});
 *     …                                            after the crash every operation fails with EIO
 *     fault_io_crash(disk, FAULT_MIX, seed);       now the machine is up again
 *
 * Table functions may be called from several threads; the fault_io_… functions from one.
 */
#ifndef TSR_TESTS_STORE_FAULT_IO_H
#define TSR_TESTS_STORE_FAULT_IO_H

#include "runtime/base/io.h"

typedef struct fault_io fault_io;

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_ERROR,       /* the operation fails with `error` and does nothing */
    FAULT_SYNC_DROPS,  /* the same; a sync that fails so marks its pages clean: what was written
                          before can no longer become durable, and later syncs say 0 */
    FAULT_ERROR_AFTER, /* the operation is done, and fails with `error` all the same */
    FAULT_SHORT_WRITE, /* pwrite writes `part_bytes` and returns that; others are not affected */
    FAULT_CRASH_BEFORE,
    FAULT_CRASH_AFTER,
    FAULT_CALL, /* calls `call` before the operation, which then goes on: another process */
} fault_kind;

typedef struct fault_plan {
    fault_kind kind;
    uint64_t at;      /* number of the operation, from 1, since arming */
    const char *name; /* only operations of this name are numbered; NULL: all */
    int error;
    size_t part_bytes;
    bool persistent; /* every operation from `at` on */
    void (*call)(void *user);
    void *call_user;
} fault_plan;

typedef enum fault_crash {
    FAULT_LOSE, /* only what was synced stays: power cut */
    FAULT_KEEP, /* everything stays: kill -9 */
    FAULT_MIX,  /* decided by the seed, block by block and entry by entry */
} fault_crash;

/* What the file system makes of O_DIRECT. */
typedef enum fault_direct {
    FAULT_DIRECT_ALIGNED,    /* memory, offset and size are multiples of 4096, or EINVAL */
    FAULT_DIRECT_NOT_OPENED, /* open says EINVAL */
    FAULT_DIRECT_NOT_USED,   /* pread and pwrite say EINVAL */
} fault_direct;

fault_io *fault_io_create(void);
fault_io *fault_io_clone(const fault_io *disk); /* files and their durability; no open files */
void fault_io_destroy(fault_io *disk);
const tsr_io *fault_io_table(fault_io *disk); /* borrowed */

void fault_io_arm(fault_io *disk, const fault_plan *plan); /* NULL: no fault; counting restarts */
/* Two faults at once; where both meet one operation, the first decides. */
void fault_io_arm_pair(fault_io *disk, const fault_plan *first, const fault_plan *second);
uint64_t fault_io_count(const fault_io *disk);   /* operations since arming */
uint64_t fault_io_matched(const fault_io *disk); /* of those, what the first plan names */
bool fault_io_fired(const fault_io *disk);       /* one of them */
bool fault_io_both_fired(const fault_io *disk);
bool fault_io_is_dead(const fault_io *disk); /* crashed, and not up again */
/* Armed, it dies after 20,000 operations: somebody tries for ever. */
bool fault_io_is_endless(const fault_io *disk);
size_t fault_io_open_count(const fault_io *disk); /* descriptors */
/* Above zero while this thread is inside the file system, whose own memory never fails. */
extern _Thread_local unsigned fault_io_depth;
const char *fault_io_fired_name(const fault_io *disk); /* "fsync"; "" if none */
void fault_io_crash(fault_io *disk, fault_crash crash, uint64_t seed);

/* A crash decided choice by choice: `choose` returns a number below `alternatives`; 0: nothing of
 * it became durable. Asked for every entry of a directory, and for every file, what of it was kept:
 * all, the size alone, parts of the blocks; of a file with few blocks that were not synced each
 * subset. */
typedef struct fault_choice {
    unsigned (*choose)(void *user, unsigned alternatives);
    void *user;
    size_t exhaustive_blocks;
} fault_choice;
void fault_io_crash_choose(fault_io *disk, const fault_choice *choice);
unsigned
fault_io_pending(const fault_io *disk); /* files and entries that differ from what was synced */
uint64_t fault_io_fingerprint(const fault_io *disk); /* of names and bytes that can be reached */
void fault_io_drop_locks(fault_io *disk); /* as a lock server would that lost its memory */
void fault_io_set_fs_type(fault_io *disk, uint64_t magic);
void fault_io_set_direct(fault_io *disk, fault_direct direct);
uint64_t fault_io_direct_count(const fault_io *disk); /* direct reads and writes, refused or not */

/* The bytes of a file, in place; NULL if there is none. */
uint8_t *fault_io_bytes(fault_io *disk, const char *path, size_t *out_size_bytes);
/* Calls back with the path of every file. */
void fault_io_each_file(fault_io *disk, void (*file)(void *user, const char *path), void *user);
bool fault_io_remove(fault_io *disk, const char *path);

#endif
