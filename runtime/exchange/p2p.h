/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of exchanges between devices; private to p2p*.c. A mailbox is:
 *
 *     words, one line of each rank | temporary sums | slots: TSR_P2P_DEPTH of each rank
 */
#ifndef TSR_RUNTIME_EXCHANGE_P2P_H
#define TSR_RUNTIME_EXCHANGE_P2P_H

#include "runtime/exchange/exchange.h"

enum {
    TSR_P2P_WORDS_BYTES = 64,
    TSR_P2P_DEPTH = 2, /* chunks that may be on the way from one rank to another */
    /* All slots of a mailbox have this size together, and each one is within these limits: larger
     * copies come closer to the speed of the link. */
    TSR_P2P_SLOTS_BYTES = 64 << 20,
    TSR_P2P_SLOT_MIN = 4 << 20,
    TSR_P2P_SLOT_MAX = 16 << 20,
    TSR_P2P_SCRATCH_SLOTS = 2, /* size of the temporary sums */
};

typedef enum tsr_p2p_word {
    TSR_P2P_ARRIVED,  /* slots that the other rank has filled */
    TSR_P2P_CONSUMED, /* slots that the other rank has read */
    TSR_P2P_READY,    /* times that the other rank's destinations were free */
    TSR_P2P_LANDED,   /* times that the other rank has written to destinations here */
    TSR_P2P_WORD_COUNT
} tsr_p2p_word;

/* Another rank. This rank's own element has its own memory. */
typedef struct tsr_p2p_peer {
    tsr_device_window mailbox, memory;
    uint32_t sent, received; /* slots to and from it */
    /* READY: told to it, and awaited from it; LANDED: pushed to it, and awaited from it. */
    uint32_t ready_told, ready_seen, landed_told, landed_seen;
} tsr_p2p_peer;

/* A word of rank `rank` in the peer's mailbox. */
static inline uint32_t *tsr_p2p_word_at(const tsr_p2p_peer *peer, uint32_t rank,
                                        tsr_p2p_word word) {
    char *line = peer->mailbox.address + (size_t)rank * TSR_P2P_WORDS_BYTES;
    return (uint32_t *)(void *)line + word;
}

typedef struct tsr_p2p {
    tsr_exchanger base; /* must be the first member */
    uint32_t rank, rank_count;
    size_t scratch_offset, slots_offset, slot_bytes; /* in a mailbox */
    tsr_p2p_peer *peers;                             /* owned; one per rank */
    bool pending;                                    /* commands may wait for other ranks */
    bool offered;            /* READY has not been awaited since the last offer */
    uint64_t pushed_bytes;   /* since the last offer */
    tsr_operation operation; /* current or last */
    uint64_t began_ns;       /* begin of the current wait */
    bool failed;
} tsr_p2p;

/* p2p_open.c: functions of the table. */
tsr_result tsr_p2p_open(tsr_ctx *ctx, const tsr_exchanger_options *options, tsr_exchanger **out);
void tsr_p2p_close(tsr_exchanger *x);

#endif
