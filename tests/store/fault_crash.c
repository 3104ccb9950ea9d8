/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the file system after a crash.
 */
#include "tests/store/fault_state.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Each 512-byte block of the file becomes the old or the new one, and so does the size. Blocks that
 * were never written read as zeros or as garbage. */
static void mix_file(fault_node *n, uint64_t *random) {
    fault_bytes mixed = {0};
    fault_resize(&mixed, next_random(random) & 1 ? n->now.size : n->synced.size);
    for (size_t at = 0; at < mixed.size; at += FAULT_BLOCK_BYTES) {
        size_t part = mixed.size - at < FAULT_BLOCK_BYTES ? mixed.size - at : FAULT_BLOCK_BYTES;
        const fault_bytes *from = next_random(random) & 1 ? &n->now : &n->synced;
        if (at < from->size)
            memcpy(mixed.data + at, from->data + at,
                   part < from->size - at ? part : from->size - at);
        else if (next_random(random) & 1)
            memset(mixed.data + at, 0xa5, part);
    }
    free(n->now.data);
    n->now = mixed;
}

/* A directory has one entry per name: either the old file or the file that replaced it. */
static void settle(fault_node *dir) {
    for (size_t i = 0; i < dir->entry_count; i++) {
        fault_entry *e = &dir->entries[i];
        for (size_t k = i + 1; e->live && k < dir->entry_count; k++)
            if (dir->entries[k].live && strcmp(dir->entries[k].name, e->name) == 0) e->live = false;
        e->durable = e->live;
        e->stuck = false;
    }
    fault_forget(dir);
}

static void come_up(fault_io *disk) {
    memset(disk->fds, 0, sizeof disk->fds);
    disk->dead = false;
    fault_io_arm(disk, NULL);
}

static bool file_differs(const fault_node *n) {
    return n->now.size != n->synced.size ||
           (n->now.size && memcmp(n->now.data, n->synced.data, n->now.size) != 0);
}

void fault_io_crash(fault_io *disk, fault_crash crash, uint64_t seed) {
    for (size_t i = 0; i < disk->node_count; i++) {
        fault_node *n = &disk->nodes[i];
        /* The kernel survives kill -9 and still writes the unsynced data. */
        if (crash == FAULT_KEEP) break;
        if (crash == FAULT_LOSE) fault_copy(&n->now, &n->synced);
        if (crash == FAULT_MIX && file_differs(n)) mix_file(n, &seed);
        fault_copy(&n->synced, &n->now);
        n->stuck = false;
        for (size_t k = 0; k < n->entry_count; k++) {
            fault_entry *e = &n->entries[k];
            if (crash == FAULT_LOSE || (e->live != e->durable && (next_random(&seed) & 1)))
                e->live = e->durable;
        }
        settle(n);
    }
    come_up(disk);
}

/* ---- every possible state ---- */

static bool block_differs(const fault_node *n, size_t block, size_t *out_size) {
    size_t at = block * FAULT_BLOCK_BYTES;
    size_t now = n->now.size > at ? n->now.size - at : 0;
    size_t old = n->synced.size > at ? n->synced.size - at : 0;
    if (now > FAULT_BLOCK_BYTES) now = FAULT_BLOCK_BYTES;
    if (old > FAULT_BLOCK_BYTES) old = FAULT_BLOCK_BYTES;
    *out_size = now;
    return now && (now != old || memcmp(n->now.data + at, n->synced.data + at, now) != 0);
}

typedef enum part {
    PART_NOTHING,
    PART_ALL,
    PART_SIZE,         /* the size without the data, which reads as zeros */
    PART_SIZE_GARBAGE, /* the size; the blocks have the previous contents of the disk */
    PART_FIRST_HALF,
    PART_SECOND_HALF,
    PART_ODD,
    PART_COUNT, /* first of two choices per block: only it, all but it */
} part;

static bool takes(unsigned choice, size_t index, size_t count) {
    switch (choice) {
    case PART_FIRST_HALF:
        return index < count / 2;
    case PART_SECOND_HALF:
        return index >= count / 2;
    case PART_ODD:
        return index & 1;
    default:
        return choice >= PART_COUNT &&
               ((choice - PART_COUNT) & 1) != ((choice - PART_COUNT) / 2 == index);
    }
}

/* Chooses the state of a file that has unsynced blocks. */
static void choose_file(fault_node *n, const fault_choice *choice) {
    size_t block_count = (n->now.size + FAULT_BLOCK_BYTES - 1) / FAULT_BLOCK_BYTES, count = 0, size;
    for (size_t i = 0; i < block_count; i++) count += block_differs(n, i, &size);
    bool each = count <= choice->exhaustive_blocks;
    unsigned what = choice->choose(choice->user,
                                   each ? PART_FIRST_HALF + 1 : (unsigned)(PART_COUNT + 2 * count));
    if (what == PART_NOTHING) fault_copy(&n->now, &n->synced);
    if (what == PART_NOTHING || what == PART_ALL) return;
    fault_bytes mixed = {0};
    fault_copy(&mixed, &n->synced);
    fault_resize(&mixed, n->now.size);
    for (size_t i = 0, index = 0; i < block_count; i++) {
        if (!block_differs(n, i, &size)) continue;
        bool taken = each && what == PART_FIRST_HALF ? choice->choose(choice->user, 2) != 0
                                                     : takes(what, index, count);
        if (taken)
            memcpy(mixed.data + i * FAULT_BLOCK_BYTES, n->now.data + i * FAULT_BLOCK_BYTES, size);
        if (what == PART_SIZE_GARBAGE) memset(mixed.data + i * FAULT_BLOCK_BYTES, 0xa5, size);
        index++;
    }
    free(n->now.data);
    n->now = mixed;
}

unsigned fault_io_pending(const fault_io *disk) {
    unsigned count = 0;
    for (size_t i = 0; i < disk->node_count; i++) {
        const fault_node *n = &disk->nodes[i];
        count += file_differs(n);
        for (size_t k = 0; k < n->entry_count; k++)
            count += n->entries[k].live != n->entries[k].durable;
    }
    return count;
}

void fault_io_crash_choose(fault_io *disk, const fault_choice *choice) {
    for (size_t i = 0; i < disk->node_count; i++) {
        fault_node *n = &disk->nodes[i];
        if (file_differs(n)) choose_file(n, choice);
        fault_copy(&n->synced, &n->now);
        n->stuck = false;
        for (size_t k = 0; k < n->entry_count; k++) {
            fault_entry *e = &n->entries[k];
            if (e->live != e->durable && !choice->choose(choice->user, 2)) e->live = e->durable;
        }
        settle(n);
    }
    come_up(disk);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) { /* FNV-1a */
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The order of the entries does not matter: their hashes are added. */
static uint64_t fingerprint(const fault_io *disk, int at) {
    const fault_node *n = &disk->nodes[at];
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    if (!n->is_dir) return mix(sum, n->now.data, n->now.size);
    for (size_t i = 0; i < n->entry_count; i++) {
        const fault_entry *e = &n->entries[i];
        if (!e->live) continue;
        uint64_t below = fingerprint(disk, e->node);
        sum +=
            mix(mix(UINT64_C(0xcbf29ce484222325), e->name, strlen(e->name)), &below, sizeof below);
    }
    return sum;
}

uint64_t fault_io_fingerprint(const fault_io *disk) { return fingerprint(disk, 0); }
