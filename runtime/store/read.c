/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread forms groups of adjacent chunks and offers them to the readers. The readers offer each
 * group that they have read to the thread pool, which hashes it. A slot is reused when its group is
 * verified. A segment is closed when all its groups are finished. Without threads, the one thread
 * does all the work, group by group.
 */
#include "runtime/store/read.h"

#include "runtime/base/plural.h"
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
    int fd, direct; /* direct: bypasses the page cache, or -1 */
    uint32_t index;
} tsr_segment_file;

/* The next chunk to be read. */
typedef struct tsr_read_cursor {
    uint32_t tensor, of_tensor, chunk, end;
    uint64_t tensor_offset; /* bytes */
} tsr_read_cursor;

/* Maps pages, because a small state needs few; large pages, because the disk pins pages, and fewer
 * pages take less time to pin. */
static bool map_buffers(tsr_reader *reader, uint32_t slot_count) {
    size_t size = slot_count * (size_t)TSR_READ_BUFFER_BYTES;
    size_t mapping_bytes = size + HUGE_PAGE_BYTES;
    void *mapping =
        mmap(NULL, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return false;
    if (reader->mapping) munmap(reader->mapping, reader->mapping_bytes);
    size_t over = (uintptr_t)mapping % HUGE_PAGE_BYTES;
    reader->mapping = mapping;
    reader->mapping_bytes = mapping_bytes;
    reader->memory = (uint8_t *)mapping + (over ? HUGE_PAGE_BYTES - over : 0);
    reader->slot_count = slot_count;
    if (slot_count > 1) (void)madvise(reader->memory, size, MADV_HUGEPAGE);
    return true;
}

tsr_reader *tsr_reader_create(void) {
    tsr_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    if (!map_buffers(reader, 1)) {
        free(reader);
        return NULL;
    }
    tsr_pool_init(&reader->workers);
    tsr_pool_init(&reader->readers);
    pthread_mutex_init(&reader->order, NULL);
    return reader;
}

void tsr_reader_destroy(tsr_reader *reader) {
    if (!reader) return;
    tsr_pool_finish(&reader->readers);
    tsr_pool_finish(&reader->workers);
    pthread_mutex_destroy(&reader->order);
    munmap(reader->mapping, reader->mapping_bytes);
    free(reader);
}

static uint8_t *buffer_of(const tsr_reader *reader, uint64_t slot) {
    return reader->memory + slot * TSR_READ_BUFFER_BYTES;
}

static unsigned count_threads(unsigned per_cpu) {
    unsigned count = tsr_pool_cpu_count();
    return count < TSR_STORE_THREADS_MAX / per_cpu ? count * per_cpu : TSR_STORE_THREADS_MAX;
}

static void start_pools(tsr_reader *reader, uint64_t state_bytes) {
    if (state_bytes < TSR_STORE_THREADS_BYTES_MIN || reader->workers.thread_count) return;
    tsr_pool_start(&reader->workers, count_threads(1));
    tsr_pool_start(&reader->readers, count_threads(TSR_READERS_PER_CPU));
    /* If there is no memory for more slots, one slot is enough. */
    (void)map_buffers(reader,
                      reader->workers.thread_count + reader->readers.thread_count + TSR_READ_AHEAD);
}

void tsr_reader_reserve(tsr_reader *reader, uint64_t state_bytes) {
    size_t size = state_bytes < TSR_READ_BUFFER_BYTES ? (size_t)state_bytes : TSR_READ_BUFFER_BYTES;
    start_pools(reader, state_bytes);
    for (uint32_t i = 0; i < reader->slot_count; i++) memset(buffer_of(reader, i), 0, size);
    reader->retained_bytes = reader->slot_count * (uint64_t)size;
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
        FAIL(ctx, TSR_STATE, "'%s' has %" PRIu64 " byte%s; the manifest states %" PRIu64,
             file->name, size, TSR_PLURAL(size), stated);
    return TSR_SUCCESS;
}

/* Closes the segment that was open before. */
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

/* Returns the number of bytes read. The caller reads the rest through the page cache, which decides
 * about damage. */
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

/* Reads bytes start … end of the segment; they begin at *out_bytes. */
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

static void form_group(const tsr_reader *reader, const tsr_manifest *manifest,
                       void *const *destinations, tsr_read_cursor *at, tsr_read_slot *slot) {
    uint64_t size = 0;
    slot->count = 0;
    while (slot->count < TSR_READ_JOBS && has_next(manifest, at)) {
        const tsr_chunk_row *chunk = &manifest->chunks[at->chunk];
        if (slot->count && size + chunk->size_bytes > TSR_READ_GROUP_BYTES) break;
        if (slot->count && chunk->segment != slot->jobs[0].chunk->segment) break;
        uint8_t *to = destinations ? destinations[at->tensor] : NULL;
        if (to) to += at->tensor_offset;
        slot->jobs[slot->count++] = (tsr_read_job){
            .chunk = chunk,
            .tensor = manifest->tensors[at->tensor].name,
            .destination = to,
            .straight = to && chunk->size_bytes >= TSR_READ_STRAIGHT_BYTES_MIN &&
                        tsr_large_pages_hold(&reader->large_pages, to, chunk->size_bytes)};
        size += chunk->size_bytes;
        at->tensor_offset += chunk->size_bytes;
        at->of_tensor++;
        at->chunk++;
    }
    TSR_ASSERT(slot->count);
}

/* ---- done by the readers ---- */

/* Reads the blocks that contain only this job's bytes directly; bytes that share a block with
 * neighbours are copied. Returns false if a direct read was not possible. */
static bool read_straight(tsr_ctx *ctx, const tsr_segment_file *file, uint8_t *buffer,
                          const tsr_read_job *job) {
    const uint64_t align = TSR_DIRECT_ALIGN;
    const uint64_t start = job->chunk->offset, end = start + job->chunk->size_bytes;
    const uint64_t low = (start + align - 1) / align * align, high = end / align * align;
    const uint8_t *edge = NULL;
    if (read_direct(tsr_ctx_io(ctx), file->direct, job->destination + (low - start),
                    (size_t)(high - low), low) != high - low)
        return false;
    if (low > start) {
        if (read_window(ctx, file, buffer, start, low, &edge).code) return false;
        memcpy(job->destination, edge, (size_t)(low - start));
    }
    if (end > high) {
        if (read_window(ctx, file, buffer, high, end, &edge).code) return false;
        memcpy(job->destination + (high - start), edge, (size_t)(end - high));
    }
    return true;
}

static tsr_result fill(tsr_ctx *ctx, const tsr_segment_file *file, uint8_t *buffer,
                       tsr_read_slot *slot) {
    const tsr_chunk_row *first = slot->jobs[0].chunk, *last = slot->jobs[slot->count - 1].chunk;
    slot->bytes = NULL;
    if (slot->count == 1 && slot->jobs[0].straight && file->direct >= 0 &&
        read_straight(ctx, file, buffer, &slot->jobs[0]))
        return TSR_SUCCESS;
    tsr_error_clear(ctx);
    return read_window(ctx, file, buffer, first->offset, last->offset + last->size_bytes,
                       &slot->bytes);
}

/* Reads a group; groups are hashed in their order. */
static void read_group(void *user, uint64_t index, unsigned worker) {
    tsr_reader *reader = user;
    tsr_read_slot *slot = &reader->slots[index % reader->slot_count];
    (void)worker;
    slot->result =
        fill(&slot->ctx, reader->file, buffer_of(reader, index % reader->slot_count), slot);
    pthread_mutex_lock(&reader->order);
    slot->was_read = true;
    for (; reader->slots[reader->read_count % reader->slot_count].was_read; reader->read_count++)
        reader->slots[reader->read_count % reader->slot_count].was_read = false;
    tsr_pool_offer(&reader->workers, reader->read_count);
    pthread_mutex_unlock(&reader->order);
}

/* ---- done by the thread pool ---- */

/* Hashes the bytes at their destination, while they are still in the cache; copies two leaves at a
 * time, because they are hashed in pairs. */
static tsr_digest take_bytes(const tsr_read_job *job, const uint8_t *bytes) {
    const size_t step = (size_t)2 * TSR_HASH_LEAF_BYTES, size = job->chunk->size_bytes;
    tsr_tree_hasher hasher;
    if (!job->destination) return tsr_hash_tree(bytes, size);
    tsr_tree_hasher_init(&hasher);
    for (size_t done = 0; done < size; done += step) {
        size_t part = size - done < step ? size - done : step;
        memcpy(job->destination + done, bytes + done, part);
        tsr_tree_hasher_update(&hasher, job->destination + done, part);
    }
    return tsr_tree_hasher_finish(&hasher);
}

static tsr_result check_job(tsr_ctx *ctx, const tsr_read_job *job, tsr_digest digest) {
    char expected[TSR_DIGEST_HEX + 1], found[TSR_DIGEST_HEX + 1];
    const tsr_chunk_row *chunk = job->chunk;
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

static tsr_result verify_jobs(tsr_ctx *ctx, const tsr_read_slot *slot) {
    const tsr_read_job *first = &slot->jobs[0];
    if (!slot->bytes)
        return check_job(ctx, first, tsr_hash_tree(first->destination, first->chunk->size_bytes));
    for (uint32_t i = 0; i < slot->count; i++) {
        const tsr_read_job *job = &slot->jobs[i];
        const uint8_t *bytes = slot->bytes + (job->chunk->offset - first->chunk->offset);
        TRY(ctx, check_job(ctx, job, take_bytes(job, bytes)));
    }
    return TSR_SUCCESS;
}

static void verify_group(void *user, uint64_t index, unsigned worker) {
    tsr_reader *reader = user;
    tsr_read_slot *slot = &reader->slots[index % reader->slot_count];
    (void)worker;
    if (!slot->result.code) slot->result = verify_jobs(&slot->ctx, slot);
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

/* Returns the first failure, in group order, of the groups that are done. */
static tsr_result check_groups(tsr_ctx *ctx, const tsr_reader *reader, uint64_t first,
                               uint64_t end) {
    for (uint64_t i = first; i < end; i++) {
        const tsr_read_slot *slot = &reader->slots[i % reader->slot_count];
        if (slot->result.code) return tsr_error_adopt(ctx, &slot->ctx);
    }
    return TSR_SUCCESS;
}

static void wait_groups(tsr_reader *reader, uint64_t count) {
    tsr_pool_wait(&reader->readers, count);
    tsr_pool_wait(&reader->workers, count);
}

static tsr_result read_groups(tsr_ctx *ctx, tsr_reader *reader, int dir,
                              const tsr_manifest *manifest, tsr_part part,
                              void *const *destinations, bool drop, tsr_segment_file *file) {
    tsr_read_cursor at = begin_at(manifest, part);
    const uint64_t slots = reader->slot_count;
    uint64_t count = 0, checked = 0;
    while (has_next(manifest, &at)) {
        bool switches = file->fd >= 0 && manifest->chunks[at.chunk].segment != file->index;
        uint64_t needed = switches ? count : count >= slots ? count - slots + 1 : 0;
        if (needed > checked) {
            wait_groups(reader, needed);
            TRY(ctx, check_groups(ctx, reader, checked, needed));
            checked = needed;
        }
        tsr_read_slot *slot = &reader->slots[count % slots];
        form_group(reader, manifest, destinations, &at, slot);
        slot->ctx = tsr_ctx_fork(ctx);
        TRY(ctx, next_segment(ctx, dir, manifest, slot->jobs[0].chunk->segment, drop, file));
        tsr_pool_offer(&reader->readers, ++count);
    }
    wait_groups(reader, count);
    return check_groups(ctx, reader, checked, count);
}

static void begin_groups(tsr_reader *reader, void *const *destinations) {
    reader->read_count = 0;
    for (uint32_t i = 0; i < TSR_READ_SLOTS; i++) reader->slots[i].was_read = false;
    reader->large_pages.count = 0;
    if (destinations && reader->readers.thread_count) tsr_large_pages_find(&reader->large_pages);
    tsr_pool_begin(&reader->readers, read_group, reader);
    tsr_pool_begin(&reader->workers, verify_group, reader);
}

tsr_result tsr_read_part(tsr_ctx *ctx, tsr_reader *reader, int gens, const tsr_manifest *manifest,
                         tsr_part part, void *const *destinations, bool drop) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_segment_file file = {.fd = -1, .direct = -1};
    int dir = -1;
    TRY(ctx, open_generation(ctx, gens, manifest, &dir));
    start_pools(reader, tsr_manifest_data_bytes(manifest));
    reader->file = &file;
    begin_groups(reader, destinations);
    tsr_result result = read_groups(ctx, reader, dir, manifest, part, destinations, drop, &file);
    tsr_pool_cancel(&reader->readers);
    tsr_pool_cancel(&reader->workers);
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
