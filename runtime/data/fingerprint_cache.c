/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/data/fingerprint_cache.h"

#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ENTRIES_MAX = 256, CACHE_BYTES_MAX = 256 * 1024 };
static const char version_line[] = "tessera.fingerprints.1\n";

static int64_t to_ns(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

tsr_file_state tsr_file_state_of(const struct stat *about, const char *member) {
    return (tsr_file_state){.size_bytes = (uint64_t)about->st_size,
                            .inode = (uint64_t)about->st_ino,
                            .mtime_ns = to_ns(about->st_mtim),
                            .ctime_ns = to_ns(about->st_ctim),
                            .member = tsr_hash(member, strlen(member))};
}

bool tsr_file_state_equal(const tsr_file_state *a, const tsr_file_state *b) {
    return a->size_bytes == b->size_bytes && a->inode == b->inode && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns && tsr_digest_equal(&a->member, &b->member);
}

/* ---- reading ---- */

/* Returns the file without its last line, which is the hash of the other lines; NULL: unusable. */
static char *read_lines(tsr_ctx *ctx, const char *path, tsr_arena *arena) {
    enum { LAST_LINE = TSR_DIGEST_HEX + 1 };
    tsr_ctx aside = tsr_ctx_fork(ctx);
    void *bytes = NULL;
    size_t size = 0;
    tsr_digest stated, actual;
    if (tsr_io_read_file(&aside, path, CACHE_BYTES_MAX, arena, &bytes, &size).code) return NULL;
    char *text = bytes;
    size_t head = sizeof version_line - 1;
    if (size < head + LAST_LINE || memcmp(text, version_line, head) != 0) return NULL;
    size_t covered = size - LAST_LINE;
    actual = tsr_hash(text, covered);
    if (!tsr_digest_parse(text + covered, TSR_DIGEST_HEX, &stated) ||
        !tsr_digest_equal(&stated, &actual))
        return NULL;
    text[covered] = 0;
    return text + head;
}

/* Returns the next line; false at the end, or if a line is malformed. */
static bool take_line(char **lines, tsr_fingerprint_known *out_known) {
    char digest[TSR_DIGEST_HEX + 1], member[TSR_DIGEST_HEX + 1];
    tsr_file_state *state = &out_known->state;
    int length = 0;
    int found = sscanf(*lines, "%64s %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNu64 " %64s\n%n",
                       digest, &state->size_bytes, &state->mtime_ns, &state->ctime_ns,
                       &state->inode, member, &length);
    if (found != 6 || !length || !tsr_digest_parse(digest, strlen(digest), &out_known->digest) ||
        !tsr_digest_parse(member, strlen(member), &state->member))
        return false;
    *lines += length;
    return true;
}

bool tsr_fingerprint_cache_find(tsr_ctx *ctx, const char *path, const tsr_file_state *state,
                                tsr_digest *out_digest) {
    tsr_arena arena = {0};
    tsr_fingerprint_known known;
    bool found = false;
    char *lines = read_lines(ctx, path, &arena);
    while (lines && !found && take_line(&lines, &known))
        found = tsr_file_state_equal(&known.state, state);
    if (found) *out_digest = known.digest;
    tsr_arena_finish(&arena);
    return found;
}

/* ---- writing ---- */

static void put_line(tsr_buffer *text, const tsr_fingerprint_known *known) {
    char digest[TSR_DIGEST_HEX + 1], member[TSR_DIGEST_HEX + 1];
    const tsr_file_state *state = &known->state;
    tsr_digest_format(&known->digest, digest);
    tsr_digest_format(&state->member, member);
    tsr_buffer_printf(text, "%s %" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 " %s\n", digest,
                      state->size_bytes, state->mtime_ns, state->ctime_ns, state->inode, member);
}

/* Only the last digest counts for one file and member. */
static bool is_replaced(const tsr_fingerprint_known *old, const tsr_fingerprint_known *known,
                        size_t count) {
    for (size_t i = 0; i < count; i++)
        if (known[i].state.inode == old->state.inode &&
            tsr_digest_equal(&known[i].state.member, &old->state.member))
            return true;
    return false;
}

tsr_result tsr_fingerprint_cache_add(tsr_ctx *ctx, const char *path,
                                     const tsr_fingerprint_known *known, size_t count) {
    tsr_result result = TSR_SUCCESS;
    tsr_arena arena = {0};
    tsr_buffer text = {0};
    tsr_fingerprint_known old;
    char hex[TSR_DIGEST_HEX + 1];
    tsr_buffer_text(&text, version_line);
    for (size_t i = 0; i < count; i++) put_line(&text, &known[i]);
    char *lines = read_lines(ctx, path, &arena);
    for (size_t entries = count; lines && entries < ENTRIES_MAX && take_line(&lines, &old);) {
        if (is_replaced(&old, known, count)) continue;
        put_line(&text, &old);
        entries++;
    }
    if (text.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for '%s'", path);
    tsr_digest hash = tsr_hash(text.bytes, text.size_bytes);
    tsr_digest_format(&hash, hex);
    tsr_buffer_printf(&text, "%s\n", hex);
    if (text.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for '%s'", path);
    TRY_GOTO(ctx, result, tsr_io_atomic_write(ctx, path, text.bytes, text.size_bytes));
done:
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
    return result;
}
