/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the coordinator and the ranks. Every message has exactly one encoding, which
 * docs/state-store.md defines, and decoding accepts no other. Messages may be lost, repeated and
 * reordered: each message can be decoded independently, and no message is obeyed twice.
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
    TSR_MESSAGE_VERDICT,     /* rank: the result */
    TSR_MESSAGE_AGREE,       /* coordinator: all resume this generation; it may be loaded. Rank: it
                                has received that message */
} tsr_message_kind;

/* The purpose of a verification. */
typedef enum tsr_purpose {
    TSR_PURPOSE_RECOVER,   /* to resume it */
    TSR_PURPOSE_COUNT,     /* to count the good generations */
    TSR_PURPOSE_READ_BACK, /* it was just written: the page cache is dropped first */
} tsr_purpose;

typedef enum tsr_verdict {
    TSR_VERDICT_GOOD,
    TSR_VERDICT_DAMAGED,
    TSR_VERDICT_UNKNOWN, /* the operating system refused: nothing is known */
} tsr_verdict;

typedef struct tsr_message {
    tsr_message_kind kind;
    uint32_t rank;    /* receiver or sender */
    uint64_t epoch;   /* epoch of the coordinator; >= 1 */
    tsr_link subject; /* the generation that the message is about. The hash of the manifest is known
                         from COMMITTED on: it is zero in PREPARE, PREPARED and ABORT. If all fields
                         are zero in AGREE, the store is empty. */
    uint64_t step;    /* PREPARE: step of the state to save */
    tsr_digest layout;      /* PREPARE, PREPARED: tsr_manifest_layout of the plan */
    tsr_part part;          /* PREPARED: chunks of the rank; PROPOSE, VERDICT: chunks to verify */
    tsr_purpose purpose;    /* PROPOSE, VERDICT */
    tsr_verdict verdict;    /* VERDICT */
    uint64_t bytes;         /* PREPARED, VERDICT: bytes written, verified */
    uint32_t code;          /* ABORT, VERDICT: a tsr_code other than TSR_OK, unless good */
    uint32_t native;        /* errno, or 0 */
    const char *text;       /* ABORT, VERDICT: the reason; at most TSR_MESSAGE_TEXT_MAX bytes.
                               Borrowed, never NULL; after decoding, it is in `text_buffer` of the
                               decoder. */
    const uint8_t *digests; /* PREPARED: part.count × 32 bytes, borrowed (from the decoded bytes) */
} tsr_message;

/* Size of a message with `chunk_count` digests and a text of `text_bytes`. */
size_t tsr_message_size(uint32_t chunk_count, size_t text_bytes);
/* Maximum size of a message about `chunk_count` chunks. */
size_t tsr_message_size_max(uint32_t chunk_count);
/* Writes the message and returns its size. */
size_t tsr_message_encode(const tsr_message *message, uint8_t *out_bytes);
/* Accepts only canonical bytes; returns false if they are damaged or not a message. text_buffer
 * holds TSR_MESSAGE_TEXT_MAX + 1 bytes. */
bool tsr_message_decode(const uint8_t *bytes, size_t size_bytes, char *text_buffer,
                        tsr_message *out_message);
const char *tsr_message_kind_name(tsr_message_kind kind); /* "PREPARED" */

#endif
