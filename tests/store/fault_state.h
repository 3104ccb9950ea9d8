/* SPDX-License-Identifier: Apache-2.0
 *
 * The data structures of the in-memory file system, shared by the files that implement it.
 */
#ifndef TSR_TESTS_STORE_FAULT_STATE_H
#define TSR_TESTS_STORE_FAULT_STATE_H

#include "tests/store/fault_io.h"

enum { FAULT_FDS_MAX = 1024, FAULT_BLOCK_BYTES = 512 };

typedef struct fault_bytes {
    uint8_t *data;
    size_t size;
} fault_bytes;

typedef struct fault_entry {
    char name[112];
    int node;
    bool live, durable;
    bool stuck; /* its change was dropped by a failed sync */
} fault_entry;

typedef struct fault_node {
    bool is_dir, stuck;
    fault_bytes now, synced; /* used for files */
    fault_entry *entries;    /* used for directories */
    size_t entry_count, entry_capacity;
} fault_node;

typedef struct fault_descriptor {
    bool used, locks, direct;
    int node;
} fault_descriptor;

struct fault_io {
    tsr_io table;
    pthread_mutex_t mutex;
    fault_node *nodes; /* 0 is the root */
    size_t node_count, node_capacity;
    fault_descriptor fds[FAULT_FDS_MAX];
    fault_plan plans[2];
    uint64_t count, matched[2]; /* operations since arming; those of the plan's name */
    uint64_t fs_type;
    fault_direct direct;
    uint64_t direct_count;
    bool dead, endless;
    bool fired[2];
    const char *fired_name; /* name of the first operation that met a fault */
};

/* Returns `memory`; ends the test if it is NULL. */
void *fault_checked(void *memory);
void fault_resize(fault_bytes *b, size_t size); /* fills a larger size with zeros */
void fault_copy(fault_bytes *to, const fault_bytes *from);
void fault_forget(fault_node *dir); /* removes entries that are neither live nor durable */

#endif
