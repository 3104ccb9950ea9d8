/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout of the memory that ranks share: a head, a seat for each rank, boards with each rank's data
 * for meetings, a channel for each pair, slots of the channels, heaps.
 *
 * A channel has one sender and one receiver, and at most SLOTS posts at a time. A board has one
 * writer and is read by all ranks. A rank uses its BOARDS boards alternately: before it writes a
 * board again, it has completed the meeting in between, which every rank joins only after it has
 * read that board.
 */
#ifndef TSR_RUNTIME_TRANSPORT_SHARED_LAYOUT_H
#define TSR_RUNTIME_TRANSPORT_SHARED_LAYOUT_H

#include "runtime/transport/transport.h"

#include <stdatomic.h>
#include <stddef.h>

#define TSR_SHARED_MAGIC UINT64_C(0x3270756f72475354) /* "TSGroup2" */

enum {
    SLOTS = 8,
    BOARDS = 2,
    REGION_WORDS = (TSR_TRANSPORT_REGION_MAX + 1) / 8,
    FAILURE_TEXT_MAX = 512
};

typedef struct shared_head {
    uint64_t magic, heap_bytes, slot_bytes, board_bytes, total_bytes;
    uint32_t rank_count;
    _Alignas(64) _Atomic uint32_t failing; /* 1: a rank is writing the fields below */
    _Atomic uint32_t failed;               /* 1: they are valid */
    uint32_t failed_rank, failed_code;
    char failed_text[FAILURE_TEXT_MAX];
} shared_head;

typedef struct shared_seat {
    /* A futex, rung when something may have changed for a rank whose seat shows that it sleeps. */
    _Alignas(64) _Atomic uint32_t doorbell;
    _Atomic uint32_t sleeping, joined, left;
    /* The process of the rank and a word in its memory, with which other ranks test if they can
     * read that memory. Valid before `joined`; process 0: other ranks must not read. */
    int32_t process;
    uint64_t probe_address, probe_word;
    _Alignas(64) _Atomic uint64_t doing; /* current or last operation: see tsr_shared_begin */
    _Atomic uint64_t step;
    _Atomic uint64_t region[REGION_WORDS];
} shared_seat;

/* A rank's data for the operation `number`; 0 before its first meeting. Data that does not fit into
 * the rest of the cache line is stored after it. */
typedef struct shared_board {
    _Alignas(64) _Atomic uint64_t number; /* written last */
    uint32_t operation, size_bytes;
    unsigned char bytes[48];
} shared_board;
static_assert(sizeof(shared_board) == 64, "a line");

/* The location of posted data. */
typedef enum shared_storage {
    SHARED_IN_POST,
    SHARED_IN_SLOT,
    SHARED_IN_HEAP,
    SHARED_IN_PROCESS, /* `offset` is an address in the sender's memory */
} shared_storage;

enum { POST_BYTES = 32 };

/* Rows of bytes at `offset` of the shared memory, or a few bytes. One cache line, so that it is
 * transferred as a unit. */
typedef struct shared_post {
    _Alignas(64) _Atomic uint64_t sequence; /* written last: 1, 2, … in its channel */
    uint64_t number, total_bytes;
    uint32_t row_count;
    uint8_t operation, storage, size_bytes, unused; /* size_bytes: bytes in the post */
    union {
        unsigned char bytes[POST_BYTES];
        struct {
            uint64_t offset, size_bytes, stride_bytes;
        } memory;
    } at;
} shared_post;
static_assert(sizeof(shared_post) == 64, "a line");

typedef struct shared_channel {
    shared_post posts[SLOTS];
    _Alignas(64) _Atomic uint64_t taken; /* number of posts */
    _Atomic uint32_t can_read;           /* 1: the receiver can read the sender's memory */
} shared_channel;

#endif
