/* SPDX-License-Identifier: Apache-2.0
 *
 * All kinds share one layout: a field that a kind does not have is zero. A decoded message is
 * encoded again and compared, so that only one encoding is accepted.
 */
#include "runtime/state/message.h"

#include <string.h>

static const char magic[4] = "TSRM";
enum { FIXED_BYTES = 144 };

static uint8_t *put(uint8_t *at, uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; i++) *at++ = (uint8_t)(value >> (8 * i));
    return at;
}
static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t size) {
    if (size) memcpy(at, bytes, size);
    return at + size;
}

static uint64_t take_number(const uint8_t **at, unsigned width) {
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) value |= (uint64_t) * (*at)++ << (8 * i);
    return value;
}
static tsr_digest take_digest(const uint8_t **at) {
    tsr_digest digest;
    memcpy(digest.bytes, *at, sizeof digest.bytes);
    *at += sizeof digest.bytes;
    return digest;
}

size_t tsr_message_size(uint32_t chunk_count, size_t text_bytes) {
    return FIXED_BYTES + (size_t)chunk_count * TSR_DIGEST_BYTES + text_bytes + TSR_DIGEST_BYTES;
}

size_t tsr_message_size_max(uint32_t chunk_count) {
    size_t digests = tsr_message_size(chunk_count, 0),
           text = tsr_message_size(0, TSR_MESSAGE_TEXT_MAX);
    return digests > text ? digests : text;
}

static bool has_digests(const tsr_message *m) { return m->kind == TSR_MESSAGE_PREPARED; }
static bool has_text(const tsr_message *m) {
    return m->kind == TSR_MESSAGE_ABORT || m->kind == TSR_MESSAGE_VERDICT;
}

size_t tsr_message_encode(const tsr_message *m, uint8_t *out_bytes) {
    size_t text = has_text(m) ? strlen(m->text) : 0;
    if (text > TSR_MESSAGE_TEXT_MAX) text = TSR_MESSAGE_TEXT_MAX;
    size_t size = tsr_message_size(has_digests(m) ? m->part.count : 0, text);
    uint8_t *at = put_bytes(out_bytes, magic, sizeof magic);
    at = put(at, TSR_MESSAGE_VERSION, 2);
    at = put(at, m->kind, 2);
    at = put(at, size, 4);
    at = put(at, m->rank, 4);
    at = put(at, m->epoch, 8);
    at = put(at, m->subject.generation, 8);
    at = put(at, m->subject.epoch, 8);
    at = put_bytes(at, m->subject.manifest_hash.bytes, TSR_DIGEST_BYTES);
    at = put(at, m->step, 8);
    at = put_bytes(at, m->layout.bytes, TSR_DIGEST_BYTES);
    at = put(at, m->part.first, 4);
    at = put(at, m->part.count, 4);
    at = put(at, m->purpose, 2);
    at = put(at, m->verdict, 2);
    at = put(at, m->bytes, 8);
    at = put(at, m->code, 4);
    at = put(at, m->native, 4);
    at = put(at, text, 4);
    at = put_bytes(at, m->text, text);
    if (has_digests(m)) at = put_bytes(at, m->digests, (size_t)m->part.count * TSR_DIGEST_BYTES);
    tsr_digest own = tsr_hash(out_bytes, (size_t)(at - out_bytes));
    at = put_bytes(at, own.bytes, TSR_DIGEST_BYTES);
    TSR_ASSERT((size_t)(at - out_bytes) == size);
    return size;
}

/* Checks that a message has the fields of its kind, in their ranges. */
static bool makes_sense(const tsr_message *m) {
    const tsr_link *s = &m->subject;
    static const tsr_digest zero;
    bool asks = m->kind == TSR_MESSAGE_PROPOSE, tells = m->kind == TSR_MESSAGE_VERDICT;
    bool prepares = m->kind == TSR_MESSAGE_PREPARE, prepared = m->kind == TSR_MESSAGE_PREPARED;
    bool aborts = m->kind == TSR_MESSAGE_ABORT;
    bool nothing = !s->generation && !s->epoch;
    bool good = m->verdict == TSR_VERDICT_GOOD;
    if (m->kind < TSR_MESSAGE_PREPARE || m->kind > TSR_MESSAGE_AGREE || !m->epoch) return false;
    if (m->rank >= TSR_RANKS_MAX || m->purpose > TSR_PURPOSE_READ_BACK) return false;
    if (m->verdict > TSR_VERDICT_UNKNOWN || s->epoch > m->epoch) return false;
    if (m->kind == TSR_MESSAGE_AGREE ? !s->generation != !s->epoch : !s->generation || !s->epoch)
        return false;
    if ((prepares || prepared || aborts || nothing) && !tsr_digest_equal(&s->manifest_hash, &zero))
        return false;
    if ((m->step && !prepares) || (m->bytes && !prepared && !tells)) return false;
    if (!prepares && !prepared && !tsr_digest_equal(&m->layout, &zero)) return false;
    if ((m->part.first || m->part.count) && !prepared && !asks && !tells) return false;
    if (m->part.count > TSR_MANIFEST_CHUNKS_MAX || m->part.first > TSR_MANIFEST_CHUNKS_MAX)
        return false;
    if ((m->purpose && !asks && !tells) || (m->verdict && !tells)) return false;
    return aborts || (tells && !good) ? m->code != 0 : !m->code && !m->native && !m->text[0];
}

bool tsr_message_decode(const uint8_t *bytes, size_t size_bytes, char *text_buffer,
                        tsr_message *out_message) {
    tsr_message m = {.text = text_buffer};
    if (size_bytes < tsr_message_size(0, 0) || memcmp(bytes, magic, sizeof magic) != 0)
        return false;
    const uint8_t *at = bytes + sizeof magic;
    uint64_t version = take_number(&at, 2);
    m.kind = (tsr_message_kind)take_number(&at, 2);
    uint64_t size = take_number(&at, 4);
    m.rank = (uint32_t)take_number(&at, 4);
    m.epoch = take_number(&at, 8);
    m.subject.generation = take_number(&at, 8);
    m.subject.epoch = take_number(&at, 8);
    m.subject.manifest_hash = take_digest(&at);
    m.step = take_number(&at, 8);
    m.layout = take_digest(&at);
    m.part.first = (uint32_t)take_number(&at, 4);
    m.part.count = (uint32_t)take_number(&at, 4);
    m.purpose = (tsr_purpose)take_number(&at, 2);
    m.verdict = (tsr_verdict)take_number(&at, 2);
    m.bytes = take_number(&at, 8);
    m.code = (uint32_t)take_number(&at, 4);
    m.native = (uint32_t)take_number(&at, 4);
    size_t text = (size_t)take_number(&at, 4);
    if (version != TSR_MESSAGE_VERSION || text > TSR_MESSAGE_TEXT_MAX || (text && !has_text(&m)) ||
        size != size_bytes ||
        tsr_message_size(has_digests(&m) ? m.part.count : 0, text) != size_bytes)
        return false;
    memcpy(text_buffer, at, text);
    text_buffer[text] = 0;
    if (strlen(text_buffer) != text || !makes_sense(&m)) return false;
    m.digests = has_digests(&m) ? at : NULL;
    tsr_digest own = tsr_hash(bytes, size_bytes - TSR_DIGEST_BYTES);
    if (memcmp(own.bytes, bytes + size_bytes - TSR_DIGEST_BYTES, TSR_DIGEST_BYTES) != 0)
        return false;
    *out_message = m;
    return true;
}

const char *tsr_message_kind_name(tsr_message_kind kind) {
    static const char *const names[] = {
        [TSR_MESSAGE_PREPARE] = "PREPARE", [TSR_MESSAGE_PREPARED] = "PREPARED",
        [TSR_MESSAGE_ABORT] = "ABORT",     [TSR_MESSAGE_COMMITTED] = "COMMITTED",
        [TSR_MESSAGE_PROPOSE] = "PROPOSE", [TSR_MESSAGE_VERDICT] = "VERDICT",
        [TSR_MESSAGE_AGREE] = "AGREE",
    };
    bool known = kind >= TSR_MESSAGE_PREPARE && kind <= TSR_MESSAGE_AGREE;
    return known ? names[kind] : "unknown";
}
