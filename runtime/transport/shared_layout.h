/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in the memory that ranks share: a head, a seat for each rank, boards for what each
 * brings to meetings, a channel for each pair, slots of the channels, heaps.
 *
 * A channel has one sender and one receiver; at most SLOTS posts are under way in it. A board has
 * one writer and is read by all. It is one of BOARDS in turn: whoever writes one again has been to
 * the meeting between, to which all came after they had read it.
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
    _Alignas(64) _Atomic uint32_t failing; /* 1: somebody writes the fields below */
    _Atomic uint32_t failed;               /* 1: they are there */
    uint32_t failed_rank, failed_code;
    char failed_text[FAILURE_TEXT_MAX];
} shared_head;

typedef struct shared_seat {
    /* A futex, rung when something may have changed for a rank that says it sleeps. */
    _Alignas(64) _Atomic uint32_t doorbell;
    _Atomic uint32_t sleeping, joined, left;
    /* Whose memory it is, and a word of it, by which others find out whether they can read there.
     * From before `joined`; process 0: others shall not. */
    int32_t process;
    uint64_t probe_address, probe_word;
    _Alignas(64) _Atomic uint64_t doing; /* or did last: see tsr_shared_begin */
    _Atomic uint64_t step;
    _Atomic uint64_t region[REGION_WORDS];
} shared_seat;

/* What a rank brings to the operation `number`; 0 before its first meeting. What does not fit into
 * the rest of the line begins behind it. */
typedef struct shared_board {
    _Alignas(64) _Atomic uint64_t number; /* written last */
    uint32_t operation, size_bytes;
    unsigned char bytes[48];
} shared_board;
static_assert(sizeof(shared_board) == 64, "a line");

/* Where what is posted lies. */
typedef enum shared_place {
    SHARED_IN_POST,
    SHARED_IN_SLOT,
    SHARED_IN_HEAP,
    SHARED_IN_PROCESS, /* `offset` is an address of the sender's */
} shared_place;

enum { POST_BYTES = 32 };

/* Rows of bytes from `offset` of the shared memory on, or a few bytes. A line, so that all of it
 * comes at once. */
typedef struct shared_post {
    _Alignas(64) _Atomic uint64_t sequence; /* written last: 1, 2, … of its channel */
    uint64_t number, total_bytes;
    uint32_t row_count;
    uint8_t operation, place, size_bytes, unused; /* size_bytes: in the post */
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
    _Alignas(64) _Atomic uint64_t taken; /* posts */
    _Atomic uint32_t can_read;           /* 1: its receiver can read the sender's memory */
} shared_channel;

#endif
