/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes BASE records, and the messages of the coordinator and the ranks.
 */
#include "runtime/base/array.h"
#include "runtime/state/message.h"
#include "tests/store/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_FIXED = 144, MESSAGE_KINDS = 7 };

/* ---- BASE ---- */

static void base_run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_link link;
    uint8_t again[TSR_BASE_BYTES];
    uint64_t epoch = size_bytes >= 16 ? fuzz_take(bytes + 8, 8) : 1;
    /* Decodes it under its own epoch, and under another. */
    for (uint64_t other = 0; other < 2; other++) {
        tsr_result result = tsr_base_decode(&ctx, "fuzz", bytes, size_bytes, epoch + other, &link);
        if (result.code) {
            fuzz_require(result.code == TSR_STATE && strncmp(ctx.error.text, "fuzz", 4) == 0,
                         "a refusal says what was refused");
            continue;
        }
        fuzz_require(!other, "a BASE has the epoch of its name");
        fuzz_require(link.epoch < epoch && !link.generation == !link.epoch,
                     "a BASE names an earlier generation or none");
        tsr_base_encode(epoch, &link, again);
        fuzz_require(size_bytes == sizeof again && memcmp(again, bytes, sizeof again) == 0,
                     "an accepted BASE is written so");
    }
}

static bool base_passes(const uint8_t *bytes, size_t size_bytes) {
    return size_bytes == TSR_BASE_BYTES && memcmp(bytes, "TSRBASE1", 8) == 0 &&
           fuzz_is_sealed(bytes, size_bytes);
}
static size_t base_mend(uint8_t *bytes, size_t size_bytes, size_t size_max) {
    if (size_max < TSR_BASE_BYTES) return size_bytes;
    for (; size_bytes < TSR_BASE_BYTES; size_bytes++) bytes[size_bytes] = 0;
    memcpy(bytes, "TSRBASE1", 8);
    fuzz_seal(bytes, TSR_BASE_BYTES);
    return TSR_BASE_BYTES;
}
static size_t base_change(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *random) {
    if (size_bytes != TSR_BASE_BYTES && size_max >= TSR_BASE_BYTES) {
        for (size_t i = size_bytes; i < TSR_BASE_BYTES; i++) bytes[i] = 0;
        size_bytes = TSR_BASE_BYTES;
    }
    if (size_bytes < TSR_BASE_BYTES) return size_bytes;
    fuzz_give(bytes + 8 * (1 + fuzz_random(random) % 3), fuzz_number(random), 8);
    return size_bytes;
}
static void base_seed(const char *folder) {
    uint8_t bytes[TSR_BASE_BYTES];
    tsr_base_encode(1, &(tsr_link){0}, bytes);
    fuzz_put(folder, 0, bytes, sizeof bytes);
    tsr_base_encode(9, &(tsr_link){.generation = 17, .epoch = 8}, bytes);
    fuzz_put(folder, 1, bytes, sizeof bytes);
}

/* ---- messages ---- */

static bool has_digests(uint64_t kind) { return kind == TSR_MESSAGE_PREPARED; }
static bool has_text(uint64_t kind) {
    return kind == TSR_MESSAGE_ABORT || kind == TSR_MESSAGE_VERDICT;
}

static void message_run(const uint8_t *bytes, size_t size_bytes) {
    char text[TSR_MESSAGE_TEXT_MAX + 1];
    tsr_message m;
    if (!tsr_message_decode(bytes, size_bytes, text, &m)) return;
    uint8_t *again = malloc(size_bytes);
    fuzz_require(again != NULL, "there is memory");
    fuzz_require(tsr_message_encode(&m, again) == size_bytes &&
                     memcmp(again, bytes, size_bytes) == 0,
                 "an accepted message is written so");
    free(again);
    fuzz_require(m.kind >= 1 && m.kind <= MESSAGE_KINDS && m.epoch && m.rank < TSR_RANKS_MAX &&
                     m.subject.epoch <= m.epoch && m.text && strlen(m.text) <= TSR_MESSAGE_TEXT_MAX,
                 "the numbers of a message are in range");
    fuzz_require(tsr_message_kind_name(m.kind)[0] != 'u', "its kind has a name");
    fuzz_require(size_bytes <= tsr_message_size_max(m.part.count), "it has room where it must");
}

static bool message_passes(const uint8_t *bytes, size_t size_bytes) {
    if (size_bytes < MESSAGE_FIXED + TSR_DIGEST_BYTES) return false;
    uint64_t kind = fuzz_take(bytes + 6, 2), text = fuzz_take(bytes + MESSAGE_FIXED - 4, 4);
    uint64_t digests = has_digests(kind) ? fuzz_take(bytes + 108, 4) : 0;
    return memcmp(bytes, "TSRM", 4) == 0 && fuzz_take(bytes + 4, 2) == TSR_MESSAGE_VERSION &&
           fuzz_take(bytes + 8, 4) == size_bytes &&
           MESSAGE_FIXED + text + (digests + 1) * TSR_DIGEST_BYTES == size_bytes &&
           fuzz_is_sealed(bytes, size_bytes);
}

/* Sets the length of the text, or the number of digests, so that it fills the message. */
static size_t message_mend(uint8_t *bytes, size_t size_bytes, size_t size_max) {
    if (size_max < MESSAGE_FIXED + TSR_DIGEST_BYTES) return size_bytes;
    for (; size_bytes < MESSAGE_FIXED + TSR_DIGEST_BYTES; size_bytes++) bytes[size_bytes] = 0;
    uint64_t kind = fuzz_take(bytes + 6, 2) % 9,
             room = size_bytes - MESSAGE_FIXED - TSR_DIGEST_BYTES;
    if (room && !has_text(kind) && !has_digests(kind)) kind = TSR_MESSAGE_ABORT;
    memcpy(bytes, "TSRM", 4);
    fuzz_give(bytes + 4, TSR_MESSAGE_VERSION, 2);
    fuzz_give(bytes + 6, kind, 2);
    fuzz_give(bytes + 8, size_bytes, 4);
    fuzz_give(bytes + MESSAGE_FIXED - 4, has_text(kind) ? room : 0, 4);
    if (has_digests(kind)) {
        fuzz_give(bytes + 108, room / TSR_DIGEST_BYTES, 4);
        size_bytes -= room % TSR_DIGEST_BYTES;
        fuzz_give(bytes + 8, size_bytes, 4);
    }
    fuzz_seal(bytes, size_bytes);
    return size_bytes;
}

static size_t message_change(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *random) {
    static const struct {
        uint8_t at, width;
    } fields[] = {{6, 2},   {12, 4},  {16, 8},  {24, 8},  {32, 8},  {72, 8}, {112 - 8, 4},
                  {108, 4}, {112, 2}, {114, 2}, {116, 8}, {124, 4}, {128, 4}};
    if (size_bytes < MESSAGE_FIXED + TSR_DIGEST_BYTES) return size_bytes;
    if (fuzz_random(random) % 4 == 0) {
        size_t grown = size_bytes + (fuzz_random(random) & 1 ? 32 : fuzz_random(random) % 1200);
        if (grown > size_max) return size_bytes;
        memset(bytes + size_bytes, 'x', grown - size_bytes);
        return grown;
    }
    unsigned pick = fuzz_random(random) % (TSR_COUNT(fields));
    uint64_t small = fuzz_random(random) % 9;
    fuzz_give(bytes + fields[pick].at, fuzz_random(random) & 1 ? small : fuzz_number(random),
              fields[pick].width);
    /* Fields that a kind does not use are zero: zero them, to reach kinds that use few fields. */
    if (fuzz_random(random) % 4 == 0) memset(bytes + 72, 0, MESSAGE_FIXED - 4 - 72);
    return size_bytes;
}

static void message_seed(const char *folder) {
    static const uint8_t digests[3 * TSR_DIGEST_BYTES] = {1, 2, 3};
    const tsr_link written = {.generation = 5, .epoch = 2};
    const tsr_link known = {.generation = 5, .epoch = 2, .manifest_hash = tsr_hash("m", 1)};
    const tsr_message rows[] = {
        {.kind = TSR_MESSAGE_PREPARE, .subject = written, .step = 9, .layout = tsr_hash("l", 1)},
        {.kind = TSR_MESSAGE_PREPARED,
         .subject = written,
         .layout = tsr_hash("l", 1),
         .part = {3, 3},
         .bytes = 77,
         .digests = digests},
        {.kind = TSR_MESSAGE_ABORT,
         .subject = written,
         .code = TSR_IO,
         .native = 28,
         .text = "full"},
        {.kind = TSR_MESSAGE_COMMITTED, .subject = known},
        {.kind = TSR_MESSAGE_PROPOSE, .subject = known, .part = {0, 4}, .purpose = 2},
        {.kind = TSR_MESSAGE_VERDICT, .subject = known, .part = {0, 4}, .bytes = 99},
        {.kind = TSR_MESSAGE_VERDICT,
         .subject = known,
         .part = {0, 4},
         .verdict = TSR_VERDICT_DAMAGED,
         .code = TSR_STATE,
         .text = "damaged"},
        {.kind = TSR_MESSAGE_AGREE, .subject = known},
        {.kind = TSR_MESSAGE_AGREE},
    };
    for (unsigned i = 0; i < TSR_COUNT(rows); i++) {
        uint8_t bytes[2048];
        tsr_message m = rows[i];
        m.epoch = 3;
        m.rank = i % 4;
        if (!m.text) m.text = "";
        fuzz_put(folder, i, bytes, tsr_message_encode(&m, bytes));
    }
}

const fuzz_target fuzz_base = {
    .name = "base",
    .seed = base_seed,
    .run = base_run,
    .passes = base_passes,
    .change = base_change,
    .mend = base_mend,
};
const fuzz_target fuzz_message = {
    .name = "message",
    .seed = message_seed,
    .run = message_run,
    .passes = message_passes,
    .change = message_change,
    .mend = message_mend,
};
