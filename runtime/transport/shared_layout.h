/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in the memory that ranks share: a head, a seat for each rank, a channel for each pair,
 * slots of the channels, heaps. A channel has one sender and one receiver: `posted` and `taken`
 * count what went through it, and at most SLOTS are under way.
 */
#ifndef TSR_RUNTIME_TRANSPORT_SHARED_LAYOUT_H
#define TSR_RUNTIME_TRANSPORT_SHARED_LAYOUT_H

#include "runtime/transport/transport.h"

#include <stdatomic.h>

#define TSR_SHARED_MAGIC UINT64_C(0x3170756f72475354) /* "TSGroup1" */

enum { SLOTS = 2, REGION_WORDS = (TSR_TRANSPORT_REGION_MAX + 1) / 8, FAILURE_TEXT_MAX = 512 };

typedef struct shared_head {
    uint64_t magic, heap_bytes, slot_bytes, total_bytes;
    uint32_t rank_count;
    _Alignas(64) _Atomic uint32_t failing; /* 1: somebody writes the fields below */
    _Atomic uint32_t failed;               /* 1: they are there */
    uint32_t failed_rank, failed_code;
    char failed_text[FAILURE_TEXT_MAX];
} shared_head;

typedef struct shared_seat {
    _Alignas(64) _Atomic uint32_t doorbell; /* a futex: rung when something may have changed */
    _Atomic uint32_t sleeping, joined, left;
    _Alignas(64) _Atomic uint64_t operation; /* what it is doing or did last */
    _Atomic uint64_t number, step;
    _Atomic uint64_t region[REGION_WORDS];
} shared_seat;

/* Bytes from `offset` of the shared memory on. */
typedef struct shared_post {
    uint64_t offset, size_bytes, total_bytes, number, stride_bytes;
    uint32_t operation, row_count;
    uint8_t bytes_are_posted, unused[7]; /* 1: in place, in a heap */
} shared_post;

typedef struct shared_channel {
    _Alignas(64) _Atomic uint64_t posted;
    shared_post posts[SLOTS];
    _Alignas(64) _Atomic uint64_t taken;
} shared_channel;

#endif
