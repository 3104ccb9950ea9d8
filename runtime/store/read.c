/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread forms groups of chunks that lie side by side and offers them to the crew, whose
 * members read each in windows and hash it; a slot is used again when its group was verified. A
 * segment is closed when none of its groups is under way.
 */
#include "runtime/store/read.h"

#include "runtime/commit/mutants.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

typedef struct tsr_segment_file {
    char name[TSR_NAME_TEXT_MAX];
    int fd, direct; /* direct: past the page cache, or -1 */
    uint32_t index;
} tsr_segment_file;

/* The next chunk to be read. */
typedef struct tsr_read_cursor {
    uint32_t tensor, of_tensor, chunk, end;
    uint64_t tensor_offset; /* bytes */
} tsr_read_cursor;

/* Pages, because a small state needs few of them. */
static const size_t memory_bytes = TSR_READ_BUFFERS * (size_t)TSR_READ_BUFFER_BYTES;
static const size_t mapping_bytes =
    TSR_READ_BUFFERS * (size_t)TSR_READ_BUFFER_BYTES + HUGE_PAGE_BYTES;

tsr_reader *tsr_reader_create(void) {
    tsr_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    reader->mapping =
        mmap(NULL, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reader->mapping == MAP_FAILED) {
        free(reader);
        return NULL;
    }
    size_t over = (uintptr_t)reader->mapping % HUGE_PAGE_BYTES;
    reader->memory = (uint8_t *)reader->mapping + (over ? HUGE_PAGE_BYTES - over : 0);
    tsr_crew_init(&reader->crew);
    return reader;
}

void tsr_reader_destroy(tsr_reader *reader) {
    if (!reader) return;
    tsr_crew_finish(&reader->crew);
    munmap(reader->mapping, mapping_bytes);
    free(reader);
}

static uint8_t *buffer_of(const tsr_reader *reader, unsigned member) {
    return reader->memory + member * (size_t)TSR_READ_BUFFER_BYTES;
}

/* Large pages are a hint: the disk pins pages, and few of them take less time. */
static void start_crew(tsr_reader *reader, uint64_t state_bytes) {
    if (state_bytes < TSR_CREW_BYTES_MIN || reader->crew.thread_count) return;
    (void)madvise(reader->memory, memory_bytes, MADV_HUGEPAGE);
    tsr_crew_start(&reader->crew);
}

void tsr_reader_reserve(tsr_reader *reader, uint64_t state_bytes) {
    size_t size = state_bytes < TSR_READ_BUFFER_BYTES ? (size_t)state_bytes : TSR_READ_BUFFER_BYTES;
    start_crew(reader, state_bytes);
    for (unsigned i = 0; i < reader->crew.thread_count; i++)
        memset(buffer_of(reader, i), 0, TSR_READ_BUFFER_BYTES);
    memset(buffer_of(reader, TSR_CREW_MAX), 0, size); /* the feeder's */
}

/* ---- files ---- */

static void close_segment(const tsr_io *io, tsr_segment_file *file) {
    if (file->direct >= 0) io->close(io->self, file->direct);
    if (file->fd >= 0) io->close(io->self, file->fd);
    file->fd = file->direct = -1;
}

static tsr_result open_segment(tsr_ctx *ctx, int dir, const tsr_manifest *manifest, uint32_t index,
                               tsr_segment_file *file) {
    uint64_t size = 0, stated = manifest->segment_sizes[index];
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_SEGMENT, .generation = index}, file->name);
    TRY(ctx, tsr_disk_open(ctx, dir, file->name, 0, &file->fd));
    file->index = index;
    TRY(ctx, tsr_disk_file_size(ctx, file->fd, file->name, &size));
    if (size != stated && !TSR_MUTANT(SIZE_UNCHECKED))
        FAIL(ctx, TSR_STATE, "'%s' has %" PRIu64 " bytes; the manifest states %" PRIu64, file->name,
             size, stated);
    return TSR_SUCCESS;
}

/* Closes what was open before. */
static tsr_result next_segment(tsr_ctx *ctx, int dir, const tsr_manifest *manifest, uint32_t index,
                               bool drop, tsr_segment_file *file) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (file->fd >= 0 && file->index == index) return TSR_SUCCESS;
    close_segment(io, file);
    TRY(ctx, open_segment(ctx, dir, manifest, index, file));
    int code = drop ? io->drop_cache(io->self, file->fd) : 0;
    if (code < 0)
        FAIL_ERRNO(ctx, TSR_IO, -code, "cannot drop '%s' from the page cache", file->name);
    if (manifest->segment_sizes[index] >= TSR_DIRECT_ALIGN)
        file->direct =
            io->open(io->self, dir, file->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_DIRECT, 0);
    return TSR_SUCCESS;
}

/* How much came at once; whatever stops it, the page cache is asked for the rest, and decides what
 * is damage. */
static size_t read_direct(const tsr_io *io, int fd, uint8_t *bytes, size_t size_bytes,
                          uint64_t offset) {
    size_t done = 0;
    while (fd >= 0 && done < size_bytes && done % TSR_DIRECT_ALIGN == 0) {
        ssize_t part =
            io->pread(io->self, fd, bytes + done, size_bytes - done, (off_t)(offset + done));
        if (part <= 0) break;
        done += (size_t)part;
    }
    return done;
}

/* Bytes start … end of the segment; they begin at *out_bytes. */
static tsr_result read_window(tsr_ctx *ctx, const tsr_segment_file *file, uint8_t *memory,
                              uint64_t start, uint64_t end, const uint8_t **out_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const uint64_t align = TSR_DIRECT_ALIGN;
    uint64_t low = start / align * align, high = (end + align - 1) / align * align;
    uint64_t done = low + read_direct(io, file->direct, memory, (size_t)(high - low), low);
    if (done < start) done = start;
    *out_bytes = memory + (start - low);
    if (done >= end) return TSR_SUCCESS;
    return tsr_disk_read(ctx, file->fd, file->name, memory + (done - low), (size_t)(end - done),
                         done);
}

/* ---- groups ---- */

/* Skips tensors without elements. */
static bool has_next(const tsr_manifest *manifest, tsr_read_cursor *at) {
    while (at->tensor < manifest->tensor_count &&
           at->of_tensor == manifest->tensors[at->tensor].chunk_count) {
        at->tensor++;
        at->of_tensor = 0;
        at->tensor_offset = 0;
    }
    return at->tensor < manifest->tensor_count && at->chunk < at->end;
}

static tsr_read_cursor begin_at(const tsr_manifest *manifest, tsr_part part) {
    tsr_read_cursor at = {.end = part.first + part.count};
    TSR_ASSERT(at.end >= part.first && at.end <= manifest->chunk_count);
    while (at.chunk < part.first) {
        uint32_t count = manifest->tensors[at.tensor].chunk_count;
        at.of_tensor = part.first - at.chunk < count ? part.first - at.chunk : count;
        at.chunk += at.of_tensor;
        if (at.of_tensor < count)
            at.tensor_offset = (uint64_t)at.of_tensor * manifest->chunks[at.chunk - 1].size_bytes;
        else
            at.tensor++, at.of_tensor = 0;
    }
    return at;
}

static void form_group(const tsr_manifest *manifest, void *const *destinations, tsr_read_cursor *at,
                       tsr_read_slot *slot) {
    uint64_t size = 0;
    slot->count = 0;
    while (slot->count < TSR_READ_JOBS && has_next(manifest, at)) {
        const tsr_chunk_row *chunk = &manifest->chunks[at->chunk];
        if (slot->count && size + chunk->size_bytes > TSR_READ_GROUP_BYTES) break;
        if (slot->count && chunk->segment != slot->jobs[0].chunk->segment) break;
        uint8_t *to = destinations ? destinations[at->tensor] : NULL;
        slot->jobs[slot->count++] =
            (tsr_read_job){.chunk = chunk,
                           .tensor = manifest->tensors[at->tensor].name,
                           .destination = to ? to + at->tensor_offset : NULL};
        size += chunk->size_bytes;
        at->tensor_offset += chunk->size_bytes;
        at->of_tensor++;
        at->chunk++;
    }
    TSR_ASSERT(slot->count);
}

/* ---- done by the crew ---- */

/* What will be used is what is hashed, while it is still near the processor; two leaves at a time,
 * because they are hashed in pairs. */
static void take_bytes(const tsr_read_job *job, uint64_t at, const uint8_t *bytes, size_t size,
                       tsr_tree_hasher *hasher) {
    const size_t step = (size_t)2 * TSR_HASH_LEAF_BYTES;
    if (!job->destination) {
        tsr_tree_hasher_update(hasher, bytes, size);
        return;
    }
    for (size_t done = 0; done < size; done += step) {
        size_t part = size - done < step ? size - done : step;
        memcpy(job->destination + at + done, bytes + done, part);
        tsr_tree_hasher_update(hasher, job->destination + at + done, part);
    }
}

static tsr_result check_job(tsr_ctx *ctx, const tsr_read_job *job, tsr_tree_hasher *hasher) {
    char expected[TSR_DIGEST_HEX + 1], found[TSR_DIGEST_HEX + 1];
    const tsr_chunk_row *chunk = job->chunk;
    tsr_digest digest = tsr_tree_hasher_finish(hasher);
    if (tsr_digest_equal(&digest, &chunk->digest) || TSR_MUTANT(CHUNKS_UNCHECKED))
        return TSR_SUCCESS;
    tsr_digest_format(&chunk->digest, expected);
    tsr_digest_format(&digest, found);
    FAIL(ctx, TSR_STATE,
         "tensor '%s' is damaged: bytes %" PRIu64 " … %" PRIu64 " of 'segment.%u' have hash %s; "
         "the manifest states %s",
         job->tensor, chunk->offset, chunk->offset + chunk->size_bytes, chunk->segment, found,
         expected);
}

/* Chunks that fit a window together. */
static tsr_result verify_short(tsr_ctx *ctx, const tsr_segment_file *file, uint8_t *buffer,
                               const tsr_read_job *jobs, uint32_t count) {
    const tsr_chunk_row *first = jobs[0].chunk, *last = jobs[count - 1].chunk;
    const uint8_t *bytes = NULL;
    TRY(ctx,
        read_window(ctx, file, buffer, first->offset, last->offset + last->size_bytes, &bytes));
    for (uint32_t i = 0; i < count; i++) {
        const tsr_chunk_row *chunk = jobs[i].chunk;
        tsr_tree_hasher hasher;
        tsr_tree_hasher_init(&hasher);
        take_bytes(&jobs[i], 0, bytes + (chunk->offset - first->offset), chunk->size_bytes,
                   &hasher);
        TRY(ctx, check_job(ctx, &jobs[i], &hasher));
    }
    return TSR_SUCCESS;
}

/* A chunk that is longer than a window. */
static tsr_result verify_long(tsr_ctx *ctx, const tsr_segment_file *file, uint8_t *buffer,
                              const tsr_read_job *job) {
    const uint64_t window = TSR_READ_WINDOW_BYTES, size = job->chunk->size_bytes;
    tsr_tree_hasher hasher;
    tsr_tree_hasher_init(&hasher);
    for (uint64_t at = 0; at < size; at += window) {
        uint64_t part = size - at < window ? size - at : window, start = job->chunk->offset + at;
        const uint8_t *bytes = NULL;
        TRY(ctx, read_window(ctx, file, buffer, start, start + part, &bytes));
        take_bytes(job, at, bytes, (size_t)part, &hasher);
    }
    return check_job(ctx, job, &hasher);
}

static uint32_t count_fitting(const tsr_read_slot *slot, uint32_t first) {
    uint64_t start = slot->jobs[first].chunk->offset;
    uint32_t i = first;
    for (; i < slot->count; i++) {
        const tsr_chunk_row *chunk = slot->jobs[i].chunk;
        if (chunk->offset + chunk->size_bytes - start > TSR_READ_WINDOW_BYTES) break;
    }
    return i - first;
}

static tsr_result verify_jobs(tsr_ctx *ctx, const tsr_segment_file *file, uint8_t *buffer,
                              const tsr_read_slot *slot) {
    for (uint32_t i = 0; i < slot->count;) {
        uint32_t fitting = count_fitting(slot, i);
        if (fitting)
            TRY(ctx, verify_short(ctx, file, buffer, &slot->jobs[i], fitting));
        else
            TRY(ctx, verify_long(ctx, file, buffer, &slot->jobs[i]));
        i += fitting ? fitting : 1;
    }
    return TSR_SUCCESS;
}

static void verify_group(void *user, uint64_t index, unsigned member) {
    tsr_reader *reader = user;
    tsr_read_slot *slot = &reader->slots[index % TSR_READ_SLOTS];
    slot->result = verify_jobs(&slot->ctx, reader->file, buffer_of(reader, member), slot);
}

/* ---- a state ---- */

static tsr_result open_generation(tsr_ctx *ctx, int gens, const tsr_manifest *manifest,
                                  int *out_dir) {
    char name[TSR_NAME_TEXT_MAX];
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_GENERATION,
                                .epoch = manifest->token.epoch,
                                .generation = manifest->token.generation},
                    name);
    if (gens < 0) FAIL(ctx, TSR_STATE, "'gen' is missing");
    return tsr_disk_open(ctx, gens, name, O_DIRECTORY, out_dir);
}

/* The first that failed, in their order, of groups that are done. */
static tsr_result check_groups(tsr_ctx *ctx, const tsr_reader *reader, uint64_t first,
                               uint64_t end) {
    for (uint64_t i = first; i < end; i++) {
        const tsr_read_slot *slot = &reader->slots[i % TSR_READ_SLOTS];
        if (slot->result.code) return tsr_error_adopt(ctx, &slot->ctx);
    }
    return TSR_SUCCESS;
}

static tsr_result read_groups(tsr_ctx *ctx, tsr_reader *reader, int dir,
                              const tsr_manifest *manifest, tsr_part part,
                              void *const *destinations, bool drop, tsr_segment_file *file) {
    tsr_crew *crew = &reader->crew;
    tsr_read_cursor at = begin_at(manifest, part);
    uint64_t count = 0, checked = 0;
    while (has_next(manifest, &at)) {
        bool switches = file->fd >= 0 && manifest->chunks[at.chunk].segment != file->index;
        uint64_t needed = switches                  ? count
                          : count >= TSR_READ_SLOTS ? count - TSR_READ_SLOTS + 1
                                                    : 0;
        if (needed > checked) {
            tsr_crew_wait(crew, needed);
            TRY(ctx, check_groups(ctx, reader, checked, needed));
            checked = needed;
        }
        tsr_read_slot *slot = &reader->slots[count % TSR_READ_SLOTS];
        form_group(manifest, destinations, &at, slot);
        slot->ctx = tsr_ctx_fork(ctx);
        TRY(ctx, next_segment(ctx, dir, manifest, slot->jobs[0].chunk->segment, drop, file));
        tsr_crew_offer(crew, ++count);
    }
    tsr_crew_wait(crew, count);
    return check_groups(ctx, reader, checked, count);
}

tsr_result tsr_read_part(tsr_ctx *ctx, tsr_reader *reader, int gens, const tsr_manifest *manifest,
                         tsr_part part, void *const *destinations, bool drop) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_segment_file file = {.fd = -1, .direct = -1};
    int dir = -1;
    TRY(ctx, open_generation(ctx, gens, manifest, &dir));
    start_crew(reader, tsr_manifest_data_bytes(manifest));
    reader->file = &file;
    tsr_crew_begin(&reader->crew, TSR_CREW_READ, verify_group, reader);
    tsr_result result = read_groups(ctx, reader, dir, manifest, part, destinations, drop, &file);
    tsr_crew_cancel(&reader->crew);
    reader->file = NULL;
    close_segment(io, &file);
    io->close(io->self, dir);
    return result;
}

tsr_result tsr_read_sizes(tsr_ctx *ctx, int gens, const tsr_manifest *manifest) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_segment_file file = {.fd = -1, .direct = -1};
    tsr_result result = TSR_SUCCESS;
    int dir = -1;
    TRY(ctx, open_generation(ctx, gens, manifest, &dir));
    for (uint32_t i = 0; !result.code && i < manifest->segment_count; i++) {
        result = open_segment(ctx, dir, manifest, i, &file);
        close_segment(io, &file);
    }
    io->close(io->self, dir);
    return result;
}
