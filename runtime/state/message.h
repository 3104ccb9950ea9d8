/* SPDX-License-Identifier: Apache-2.0
 *
 * What the coordinator and the ranks tell each other. Every message has one encoding, which
 * docs/state-store.md fixes, and decoding accepts nothing else. Messages may be lost, repeated and
 * reordered: each is understood alone, and none is obeyed twice.
 *
 *     saving        PREPARE →   ← PREPARED or ABORT     COMMITTED → or ABORT →
 *     recovering    PROPOSE →   ← VERDICT               AGREE →   ← AGREE
 */
#ifndef TSR_RUNTIME_STATE_MESSAGE_H
#define TSR_RUNTIME_STATE_MESSAGE_H

#include "runtime/state/format.h"

enum {
    TSR_MESSAGE_VERSION = 1,
    TSR_MESSAGE_TEXT_MAX = 1000,
    TSR_RANKS_MAX = 4096,
};

typedef enum tsr_message_kind {
    TSR_MESSAGE_PREPARE = 1, /* coordinator: write your segments of this generation */
    TSR_MESSAGE_PREPARED,    /* rank: they are durable; these are their sizes and digests */
    TSR_MESSAGE_ABORT,       /* rank: it cannot be saved; coordinator: it will not be */
    TSR_MESSAGE_COMMITTED,   /* coordinator: it is acknowledged */
    TSR_MESSAGE_PROPOSE,     /* coordinator: verify your part of this committed generation */
    TSR_MESSAGE_VERDICT,     /* rank: what came of it */
    TSR_MESSAGE_AGREE,       /* coordinator: this is what all go on from; it may be loaded. Rank:
                                it has heard of that */
} tsr_message_kind;

/* Why a generation is verified. */
typedef enum tsr_purpose {
    TSR_PURPOSE_RECOVER,   /* to go on from it */
    TSR_PURPOSE_COUNT,     /* to know how many are good */
    TSR_PURPOSE_READ_BACK, /* it was just written: the page cache is dropped first */
} tsr_purpose;

typedef enum tsr_verdict {
    TSR_VERDICT_GOOD,
    TSR_VERDICT_DAMAGED,
    TSR_VERDICT_UNKNOWN, /* the operating system refused: nothing is known */
} tsr_verdict;

typedef struct tsr_message {
    tsr_message_kind kind;
    uint32_t rank;       /* whom it is to, or whom it is from */
    uint64_t epoch;      /* of the coordinator; >= 1 */
    tsr_link subject;    /* the generation spoken of. Its hash is known from COMMITTED on: zero in
                            PREPARE, PREPARED and ABORT. All zero in AGREE: nothing there. */
    uint64_t step;       /* PREPARE: of the state that is to be saved */
    tsr_digest layout;   /* PREPARE, PREPARED: tsr_manifest_layout of the plan */
    tsr_part part;       /* PREPARED: chunks it has; PROPOSE, VERDICT: chunks to be verified */
    tsr_purpose purpose; /* PROPOSE, VERDICT */
    tsr_verdict verdict; /* VERDICT */
    uint64_t bytes;      /* PREPARED, VERDICT: written, verified */
    uint32_t code;       /* ABORT, VERDICT: a tsr_code other than TSR_OK, unless good */
    uint32_t native;     /* errno, or 0 */
    const char *text;    /* ABORT, VERDICT: why; at most TSR_MESSAGE_TEXT_MAX bytes. Borrowed,
                            never NULL; decoded, it lies in `text_room` of the decoder. */
    const uint8_t *digests; /* PREPARED: part.count × 32 bytes, borrowed (from the bytes decoded) */
} tsr_message;

/* Of a message of `chunk_count` digests and a text of `text_bytes`. */
size_t tsr_message_size(uint32_t chunk_count, size_t text_bytes);
/* The room that any message about `chunk_count` chunks needs. */
size_t tsr_message_size_max(uint32_t chunk_count);
/* Writes it and returns its size. */
size_t tsr_message_encode(const tsr_message *message, uint8_t *out_bytes);
/* Accepts canonical bytes alone; false: they are none of ours, or damaged. text_room holds
 * TSR_MESSAGE_TEXT_MAX + 1 bytes. */
bool tsr_message_decode(const uint8_t *bytes, size_t size_bytes, char *text_room,
                        tsr_message *out_message);
const char *tsr_message_kind_name(tsr_message_kind kind); /* "PREPARED" */

#endif
