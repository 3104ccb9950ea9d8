/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the speed of the state store with that of the disk and the processor that it uses, in
 * one run.
 *
 *     store_bench FOLDER MIB GENERATIONS
 *
 * Needs six times MIB mebibytes in FOLDER, which must not have a store-bench folder; the written
 * files are removed at the end. Each round takes the store and its references one after the other,
 * with the plain write or read before and after; figures are medians. Prints one JSON object:
 *
 * persist: speed of a save of MIB until it is acknowledged, as a fraction of the speed of writing
 * the same bytes to one new file, bypassing the page cache, in blocks of 8 MiB, with one fsync.
 * persist_low, persist_high: the extremes of single rounds, relative to the two writes around each.
 * persist_floor: the same, as a fraction of the possible speed: the lower of that write speed and
 * of the speed at which all cores together hash those bytes. recover: speed of opening a store of
 * MIB, verifying every byte, and loading it, as a fraction of the speed of reading its segment,
 * bypassing the page cache, to its final position, in blocks of 8 MiB; recover_low, recover_high as
 * above. recover_huge: the same, relative to reading into one block again and again: this is faster
 * if the processor's cache takes the data from the disk, but then the state is not in memory.
 * recover_floor: the same, as a fraction of the possible speed: the lower of the read speed and of
 * the speed at which all cores together hash and do the work that the disk costs them; read_cores
 * is the number of cores that reading costs, measured by counting threads that run concurrently,
 * one per core: a virtual disk is served by the machine that its guest computes on. recover_both:
 * the same, as a fraction of the speed at which two threads per core read that segment into huge
 * pages and one thread per core only hashes the data. commit_4_kib: time of a save of 4 KiB divided
 * by that of write, fsync and rename of a file of 4 KiB; commit_syncs: fsyncs during that save
 * until it is acknowledged. stall_…: time that the step loop waits for a save of 4 KiB, 1 MiB, 8
 * MiB, 64 MiB, MIB, divided by 100 ms. For 1 MiB and more: in a step that computes for 90 ms and
 * then writes the state, tensor by tensor of 16 MiB, each once it is copied. stall_whole_…: the
 * same if the state is one tensor, which must not be written before the whole copy is done;
 * stall_whole_floor: the part of one memcpy of MIB that does not fit into those 90 ms.
 * stall_copied: the same if the state is written at once: the whole copy of MIB. slowdown_…: that
 * step during a save divided by the same step alone, without its waits. write_gb_s, read_gb_s,
 * read_huge_gb_s, hash_gb_s, both_gb_s, copy_gb_s: the references, in 1e9 bytes per second; the
 * last is memcpy of MIB by one thread. generations: saves of 4 KiB in one store, kept open:
 * compares the last hundredth of the saves with the first, and reports the growth of the
 * directory's bytes, of open descriptors, and of resident memory in KiB.
 */
#include "bench/median.h"
#include "runtime/base/clock.h"
#include "runtime/base/io/io.h"
#include "runtime/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ROUNDS = 7,
    COMMITS = 51,
    BLOCK_BYTES = 8 << 20,
    HUGE_PAGE_BYTES = 2 << 20,
    PATH_BYTES = 4096,
    MIB_MAX = 4096,
    GENERATIONS_MAX = 1000000,
    THREADS_MAX = 8, /* as many as the store uses */
    PIPE_SLOTS = 3 * THREADS_MAX,
    STEPS = 15,
    STEPS_LARGE = 5,
    TENSOR_BYTES = 16 << 20,
    TENSORS_MAX = MIB_MAX / 16,
};
static const double step_seconds = 0.1;

typedef struct bench {
    tsr_ctx ctx;
    char folder[PATH_BYTES], store[PATH_BYTES], file[PATH_BYTES], renamed[PATH_BYTES];
    uint8_t *bytes;       /* memory of the state: huge pages, as a device of the runtime uses */
    uint8_t *huge, *pipe; /* blocks for the references; huge pages, too */
    size_t size_bytes;
} bench;

typedef struct figures {
    double persist, persist_low, persist_high, persist_floor, recover, recover_low, recover_high,
        recover_huge, recover_floor, recover_both, commit;
    /* for each size, in the order of the output */
    double stalls[5], stalls_whole[5], stall_whole_floor, stall_copied, slowdowns[5];
    double write_gb_s, read_gb_s, read_huge_gb_s, read_cores, hash_gb_s, both_gb_s, copy_gb_s;
    unsigned long commit_syncs;
    long generation_bytes, generation_fds, generation_kib;
} figures;

/* ---- references ---- */

static uint8_t *large_pages(size_t size_bytes) {
    size_t size = (size_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    uint8_t *memory = aligned_alloc(HUGE_PAGE_BYTES, size);
    if (memory) (void)madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

static TSR_RESULT write_plain(bench *b, const char *path, size_t size_bytes, int flags,
                              double *out_seconds) {
    double start = tsr_clock_seconds();
    bool good = true;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);
    for (size_t at = 0; fd >= 0 && good && at < size_bytes; at += BLOCK_BYTES) {
        size_t size = size_bytes - at < BLOCK_BYTES ? size_bytes - at : BLOCK_BYTES;
        good = pwrite(fd, b->bytes + at, size, (off_t)at) == (ssize_t)size;
    }
    good = good && fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    *out_seconds = tsr_clock_seconds() - start;
    if (!good) FAIL(&b->ctx, TSR_IO, "cannot write '%s'", path);
    return TSR_SUCCESS;
}

/* Reads each block into its own buffer, or all blocks into the same one. */
static TSR_RESULT read_plain(bench *b, const char *path, uint8_t *memory, bool spread,
                             double *out_seconds) {
    double start = tsr_clock_seconds();
    size_t at = 0;
    ssize_t part = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    while (fd >= 0 && (part = pread(fd, memory + (spread ? at : 0), BLOCK_BYTES, (off_t)at)) > 0)
        at += (size_t)part;
    if (fd >= 0) close(fd);
    *out_seconds = tsr_clock_seconds() - start;
    if (at != b->size_bytes) FAIL(&b->ctx, TSR_IO, "cannot read '%s'", path);
    return TSR_SUCCESS;
}

static TSR_RESULT write_new(bench *b, double *out_seconds) {
    unlink(b->file);
    return write_plain(b, b->file, b->size_bytes, O_DIRECT, out_seconds);
}

static TSR_RESULT replace_plain(bench *b, double *out_seconds) {
    double start = tsr_clock_seconds(), ignored;
    TRY(&b->ctx, write_plain(b, b->file, 4096, 0, &ignored));
    if (rename(b->file, b->renamed)) FAIL(&b->ctx, TSR_IO, "cannot rename '%s'", b->file);
    *out_seconds = tsr_clock_seconds() - start;
    return TSR_SUCCESS;
}

/* Hashes every chunk of the state, divided among threads as the store does. */
typedef struct hashing {
    const bench *b;
    unsigned index, count;
    tsr_digest last;
} hashing;

static unsigned core_count(void) {
    cpu_set_t cpus;
    unsigned count = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : (unsigned)CPU_COUNT(&cpus);
    return count < THREADS_MAX ? count : THREADS_MAX;
}

static void *hash_share(void *user) {
    hashing *share = user;
    size_t stride = (size_t)share->count * TSR_HASH_CHUNK_BYTES;
    for (size_t at = (size_t)share->index * TSR_HASH_CHUNK_BYTES; at < share->b->size_bytes;
         at += stride) {
        size_t left = share->b->size_bytes - at;
        share->last = tsr_hash_tree(share->b->bytes + at,
                                    left < TSR_HASH_CHUNK_BYTES ? left : TSR_HASH_CHUNK_BYTES);
    }
    return NULL;
}

static TSR_RESULT hash_plain(bench *b, double *out_seconds) {
    hashing shares[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    double start = tsr_clock_seconds();
    const unsigned count = core_count();
    for (unsigned i = 0; i < count; i++) {
        shares[i] = (hashing){.b = b, .index = i, .count = count};
        if (pthread_create(&threads[i], NULL, hash_share, &shares[i]))
            FAIL(&b->ctx, TSR_MEMORY, "cannot start a thread");
    }
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    *out_seconds = tsr_clock_seconds() - start;
    return TSR_SUCCESS;
}

/* Counting threads, one per core, measure the CPU time that others take. */
typedef struct counter {
    atomic_ulong iterations;
    atomic_bool stop;
    char apart[64]; /* padding to the next cache line */
} counter;

static void *count_iterations(void *user) {
    counter *c = user;
    while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        for (int i = 0; i < 256; i++)
            atomic_fetch_add_explicit(&c->iterations, 1, memory_order_relaxed);
        (void)sched_yield(); /* a thread waiting for the disk needs a processor briefly */
    }
    return NULL;
}

static double iterations_of(counter *counters, unsigned count) {
    double sum = 0;
    for (unsigned i = 0; i < count; i++) sum += (double)atomic_load(&counters[i].iterations);
    return sum;
}

/* Measures the core seconds that reading a file costs: the loss of the counting threads. */
static TSR_RESULT read_cost(bench *b, const char *path, double *out_core_seconds,
                            double *out_seconds) {
    static counter counters[THREADS_MAX];
    const struct timespec moment = {0, 50000000}, while_alone = {0, 150000000};
    pthread_t threads[THREADS_MAX];
    const unsigned cores = core_count();
    for (unsigned i = 0; i < cores; i++) {
        atomic_store(&counters[i].stop, false);
        if (pthread_create(&threads[i], NULL, count_iterations, &counters[i]))
            FAIL(&b->ctx, TSR_MEMORY, "cannot start a thread");
    }
    nanosleep(&moment, NULL);
    double start = tsr_clock_seconds(), at_start = iterations_of(counters, cores);
    nanosleep(&while_alone, NULL);
    double middle = tsr_clock_seconds(), at_middle = iterations_of(counters, cores);
    tsr_result result = read_plain(b, path, b->bytes, true, out_seconds);
    double iterations = iterations_of(counters, cores) - at_middle,
           seconds = tsr_clock_seconds() - middle;
    for (unsigned i = 0; i < cores; i++) atomic_store(&counters[i].stop, true);
    for (unsigned i = 0; i < cores; i++) pthread_join(threads[i], NULL);
    double alone = (at_middle - at_start) / (middle - start);
    *out_core_seconds = iterations < alone * seconds ? cores * (seconds - iterations / alone) : 0;
    return result;
}

/* Copies twice and measures the second time, to memory that has been touched. */
static TSR_RESULT copy_plain(bench *b, double *out_seconds) {
    uint8_t *to = large_pages(b->size_bytes);
    if (!to) FAIL(&b->ctx, TSR_MEMORY, "no memory for %zu bytes", b->size_bytes);
    memcpy(to, b->bytes, b->size_bytes);
    double start = tsr_clock_seconds();
    memcpy(to, b->bytes, b->size_bytes);
    *out_seconds = tsr_clock_seconds() - start;
    free(to);
    return TSR_SUCCESS;
}

/* A queue of chunks of a file from the reading threads to the hashing threads. */
typedef struct pipe {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int fd;
    uint8_t *memory; /* one slot for each chunk */
    unsigned free_slots[PIPE_SLOTS], free_count;
    unsigned full_slots[PIPE_SLOTS], full_count;
    uint64_t next, left, chunk_count;
    bool failed;
} pipe_t;

static void *pipe_read(void *user) {
    pipe_t *p = user;
    pthread_mutex_lock(&p->mutex);
    while (p->next < p->chunk_count) {
        if (!p->free_count) {
            pthread_cond_wait(&p->changed, &p->mutex);
            continue;
        }
        const uint64_t chunk = p->next++;
        const unsigned slot = p->free_slots[--p->free_count];
        pthread_mutex_unlock(&p->mutex);
        bool good = pread(p->fd, p->memory + (size_t)slot * TSR_HASH_CHUNK_BYTES,
                          TSR_HASH_CHUNK_BYTES, (off_t)(chunk * TSR_HASH_CHUNK_BYTES)) > 0;
        pthread_mutex_lock(&p->mutex);
        p->failed |= !good;
        p->full_slots[p->full_count++] = slot;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static void *pipe_hash(void *user) {
    pipe_t *p = user;
    volatile uint8_t sink = 0;
    pthread_mutex_lock(&p->mutex);
    while (p->left) {
        if (!p->full_count) {
            pthread_cond_wait(&p->changed, &p->mutex);
            continue;
        }
        const unsigned slot = p->full_slots[--p->full_count];
        p->left--;
        pthread_mutex_unlock(&p->mutex);
        sink ^= tsr_hash_tree(p->memory + (size_t)slot * TSR_HASH_CHUNK_BYTES, TSR_HASH_CHUNK_BYTES)
                    .bytes[0];
        pthread_mutex_lock(&p->mutex);
        p->free_slots[p->free_count++] = slot;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* Reads and hashes whole chunks only. */
static TSR_RESULT read_and_hash(bench *b, const char *path, double *out_seconds) {
    pthread_t threads[3 * THREADS_MAX];
    unsigned count = 0, cores = core_count();
    pipe_t p = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER,
                .memory = b->pipe,
                .free_count = PIPE_SLOTS,
                .chunk_count = b->size_bytes / TSR_HASH_CHUNK_BYTES};
    for (unsigned i = 0; i < PIPE_SLOTS; i++) p.free_slots[i] = i;
    p.left = p.chunk_count;
    double start = tsr_clock_seconds();
    p.fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    for (unsigned i = 0; i < 3 * cores; i++) {
        if (pthread_create(&threads[count], NULL, i < 2 * cores ? pipe_read : pipe_hash, &p))
            FAIL(&b->ctx, TSR_MEMORY, "cannot start a thread");
        count++;
    }
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    close(p.fd);
    *out_seconds = tsr_clock_seconds() - start;
    if (p.failed) FAIL(&b->ctx, TSR_IO, "cannot read '%s'", path);
    return TSR_SUCCESS;
}

/* ---- the store ---- */

static unsigned long syncs, syncs_at_ack; /* counted in the saving thread, read after it is done */

static int counted_fsync(void *self, int fd) {
    __atomic_add_fetch(&syncs, 1, __ATOMIC_RELAXED);
    return tsr_io_system()->fsync(self, fd);
}
static void note_ack(void *user, const char *line) {
    (void)user;
    if (strstr(line, "\"event\":\"ack\"")) syncs_at_ack = __atomic_load_n(&syncs, __ATOMIC_RELAXED);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static TSR_RESULT open_store(bench *b, const tsr_tensor *tensor, tsr_store **out_store) {
    const tsr_store_options options = {.size_bytes = sizeof options,
                                       .directory = b->store,
                                       .keep = 2,
                                       .region = "bench",
                                       .event = note_ack,
                                       .tensors = tensor,
                                       .tensor_count = tensor ? 1 : 0,
                                       .finite = true};
    tsr_recovery recovery;
    return tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, out_store, &recovery);
}

static TSR_RESULT save(bench *b, tsr_store *store, uint64_t step, tsr_save_status *out_status) {
    const tsr_position position = {.step = step, .virtual_ranks = 1};
    TRY(&b->ctx, tsr_store_save(&b->ctx, store, &position));
    *out_status = tsr_store_wait(store);
    if (out_status->committed_count != step) FAIL(&b->ctx, TSR_SAVE, "save %d failed", (int)step);
    return TSR_SUCCESS;
}

static double higher(double a, double b) { return a > b ? a : b; }

static TSR_RESULT measure_large(bench *b, figures *out) {
    tsr_tensor tensor = {"w", TSR_DTYPE_F32, {1, {b->size_bytes / 4}}, b->bytes};
    double persist[ROUNDS], ratio[ROUNDS], read_ratio[ROUNDS], before, after, stall[ROUNDS],
        recover[ROUNDS], writing[ROUNDS], reading[ROUNDS], reading_huge[ROUNDS], hashes[2 * ROUNDS],
        both[ROUNDS], cost[ROUNDS], beside[ROUNDS];
    char segment[PATH_BYTES + 64];
    tsr_store *store = NULL;
    tsr_result result = open_store(b, &tensor, &store);
    TRY(&b->ctx, result);
    TRY_GOTO(&b->ctx, result, tsr_store_reserve(&b->ctx, store, &tensor, 1));
    for (uint64_t i = 0; i < ROUNDS; i++) {
        tsr_save_status status;
        TRY_GOTO(&b->ctx, result, hash_plain(b, &hashes[i]));
        TRY_GOTO(&b->ctx, result, write_new(b, &before));
        TRY_GOTO(&b->ctx, result, save(b, store, i + 1, &status));
        TRY_GOTO(&b->ctx, result, write_new(b, &after));
        writing[i] = (before + after) / 2;
        persist[i] = status.persist_seconds;
        ratio[i] = writing[i] / persist[i];
        stall[i] = status.stall_seconds;
    }
    tsr_store_close(&b->ctx, store);
    store = NULL;
    snprintf(segment, sizeof segment, "%s/gen/1-%d/segment.0", b->store, ROUNDS);
    for (size_t i = 0; i < ROUNDS; i++) {
        TRY_GOTO(&b->ctx, result, read_plain(b, segment, b->huge, false, &reading_huge[i]));
        TRY_GOTO(&b->ctx, result, hash_plain(b, &hashes[ROUNDS + i]));
        TRY_GOTO(&b->ctx, result, read_and_hash(b, segment, &both[i]));
        TRY_GOTO(&b->ctx, result, read_cost(b, segment, &cost[i], &beside[i]));
        TRY_GOTO(&b->ctx, result, read_plain(b, segment, b->bytes, true, &before));
        double start = tsr_clock_seconds();
        TRY_GOTO(&b->ctx, result, open_store(b, &tensor, &store));
        TRY_GOTO(&b->ctx, result, tsr_store_load(&b->ctx, store, &tensor, 1));
        recover[i] = tsr_clock_seconds() - start;
        tsr_store_close(&b->ctx, store);
        store = NULL;
        TRY_GOTO(&b->ctx, result, read_plain(b, segment, b->bytes, true, &after));
        reading[i] = (before + after) / 2;
        read_ratio[i] = reading[i] / recover[i];
    }
    double write = median_of(writing, ROUNDS), read = median_of(reading, ROUNDS);
    double read_huge = median_of(reading_huge, ROUNDS);
    double hash = median_of(hashes, ROUNDS), rehash = median_of(hashes + ROUNDS, ROUNDS);
    double saved = median_of(persist, ROUNDS), recovered = median_of(recover, ROUNDS);
    double together = median_of(both, ROUNDS);
    double gigabytes = (double)b->size_bytes * 1e-9, copied = 0;
    TRY_GOTO(&b->ctx, result, copy_plain(b, &copied));
    out->persist = median_of(ratio, ROUNDS); /* this sorts the ratios */
    out->persist_low = ratio[0];
    out->persist_high = ratio[ROUNDS - 1];
    out->persist_floor = higher(write, hash) / saved;
    out->recover = median_of(read_ratio, ROUNDS);
    out->recover_low = read_ratio[0];
    out->recover_high = read_ratio[ROUNDS - 1];
    out->recover_huge = read_huge / recovered;
    out->recover_floor = higher(read, rehash + median_of(cost, ROUNDS) / core_count()) / recovered;
    out->read_cores = median_of(cost, ROUNDS) / median_of(beside, ROUNDS);
    out->recover_both = together / recovered;
    out->stall_copied = median_of(stall, ROUNDS) / step_seconds;
    out->stall_whole_floor = higher(copied / step_seconds - 0.9, 0);
    out->write_gb_s = gigabytes / write;
    out->read_gb_s = gigabytes / read;
    out->read_huge_gb_s = gigabytes / read_huge;
    out->hash_gb_s = gigabytes / hash;
    out->both_gb_s = gigabytes / together;
    out->copy_gb_s = gigabytes / copied;
done:
    tsr_store_close(&b->ctx, store);
    return result;
}

/* ---- small states ---- */

static TSR_RESULT measure_small(bench *b, figures *out) {
    const tsr_tensor tensor = {"w", TSR_DTYPE_UI8, {1, {4096}}, b->bytes};
    double persist[COMMITS], stall[COMMITS], replace[COMMITS], counts[COMMITS];
    tsr_store *store = NULL;
    tsr_io counting = *tsr_io_system();
    counting.fsync = counted_fsync;
    b->ctx.io = &counting;
    tsr_result result = open_store(b, &tensor, &store);
    if (!result.code) result = tsr_store_reserve(&b->ctx, store, &tensor, 1);
    for (uint64_t i = 0; i < COMMITS && !result.code; i++) {
        tsr_save_status status;
        TRY_GOTO(&b->ctx, result, replace_plain(b, &replace[i]));
        unsigned long before = __atomic_load_n(&syncs, __ATOMIC_RELAXED);
        TRY_GOTO(&b->ctx, result, save(b, store, i + 1, &status));
        counts[i] = (double)(syncs_at_ack - before);
        persist[i] = status.persist_seconds;
        stall[i] = status.stall_seconds;
    }
    out->commit = median_of(persist, COMMITS) / median_of(replace, COMMITS);
    out->stalls[0] = median_of(stall, COMMITS) / step_seconds;
    out->commit_syncs = (unsigned long)median_of(counts, COMMITS);
done:
    tsr_store_close(&b->ctx, store);
    b->ctx.io = NULL;
    return result;
}

/* The loop runs for step_seconds on one thread by itself. */
static uint64_t spin(uint64_t iterations) {
    volatile uint64_t value = 1;
    for (uint64_t i = 0; i < iterations; i++) value = value * 6364136223846793005u + i;
    return value;
}
static double spin_seconds(uint64_t iterations) {
    double start = tsr_clock_seconds();
    spin(iterations);
    return tsr_clock_seconds() - start;
}

/* Writes like an optimizer: reads, changes, writes; floats stay finite. */
static void write_tensor(const tsr_tensor *tensor) {
    uint32_t *words = tensor->data;
    for (uint64_t i = 0; i < tensor->shape.dims[0]; i++) words[i] ^= 0x00012345;
}

typedef struct stepping {
    tsr_tensor *tensors;
    size_t count;
    uint64_t iterations;
} stepping;

/* Returns the time of a step without its waits; store: a store that is copying, or NULL. */
static double step(const stepping *s, tsr_store *store) {
    double start = tsr_clock_seconds(), waited = 0;
    spin(s->iterations / 10 * 9);
    for (size_t i = 0; i < s->count; i++) {
        double begin = tsr_clock_seconds();
        if (store) tsr_store_wait_copied(store, s->tensors[i].data);
        waited += tsr_clock_seconds() - begin;
        write_tensor(&s->tensors[i]);
    }
    return tsr_clock_seconds() - start - waited;
}

/* Alternates steps without and with a running save; a large state gets fewer steps. */
static TSR_RESULT measure_steps(bench *b, size_t size_bytes, size_t tensor_bytes, double *out_stall,
                                double *out_slowdown) {
    double stall[STEPS], alone[STEPS], beside[STEPS];
    static tsr_tensor tensors[TENSORS_MAX];
    static char names[TENSORS_MAX][8];
    stepping s = {tensors, size_bytes / tensor_bytes, 0};
    tsr_store *store = NULL;
    for (size_t i = 0; i < s.count; i++) {
        snprintf(names[i], sizeof names[i], "w%zu", i);
        tensors[i] = (tsr_tensor){
            names[i], TSR_DTYPE_F32, {1, {tensor_bytes / 4}}, b->bytes + i * tensor_bytes};
    }
    tsr_result result = open_store(b, NULL, &store);
    TRY(&b->ctx, result);
    TRY_GOTO(&b->ctx, result, tsr_store_reserve(&b->ctx, store, tensors, s.count));
    const size_t steps = size_bytes < (size_t)256 << 20 ? STEPS : STEPS_LARGE;
    s.iterations = (uint64_t)(1e6 * step_seconds / spin_seconds(1000000));
    for (uint64_t i = 0; i < steps; i++) {
        const tsr_position position = {.step = i + 1, .virtual_ranks = 1};
        alone[i] = step(&s, NULL);
        TRY_GOTO(&b->ctx, result, tsr_store_save_begin(&b->ctx, store, &position));
        beside[i] = step(&s, store);
        tsr_save_status status = tsr_store_wait(store);
        if (status.committed_count != i + 1)
            FAIL_GOTO(&b->ctx, result, TSR_SAVE, "save %d failed", (int)i + 1);
        stall[i] = status.stall_seconds;
    }
    *out_stall = median_of(stall, steps) / step_seconds;
    *out_slowdown = median_of(beside, steps) / median_of(alone, steps);
done:
    tsr_store_close(&b->ctx, store);
    return result;
}

/* ---- many generations ---- */

static long file_bytes;
static int add_size(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)path, (void)type, (void)walk;
    file_bytes += (long)info->st_size;
    return 0;
}

static long count_entries(const char *path) {
    long count = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) count++;
    if (dir) closedir(dir);
    return count;
}

static long resident_kib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static TSR_RESULT measure_generations(bench *b, uint64_t count, figures *out) {
    const tsr_tensor tensor = {"w", TSR_DTYPE_UI8, {1, {4096}}, b->bytes};
    tsr_store *store = NULL;
    tsr_result result = open_store(b, &tensor, &store);
    TRY(&b->ctx, result);
    TRY_GOTO(&b->ctx, result, tsr_store_reserve(&b->ctx, store, &tensor, 1));
    long bytes = 0, fds = 0, kib = 0;
    for (uint64_t i = 1; i <= count; i++) {
        tsr_save_status status;
        TRY_GOTO(&b->ctx, result, save(b, store, i, &status));
        if (i != (count + 99) / 100 && i != count) continue;
        file_bytes = 0;
        nftw(b->store, add_size, 16, FTW_PHYS);
        out->generation_bytes = file_bytes - bytes;
        out->generation_fds = count_entries("/proc/self/fd") - fds;
        out->generation_kib = resident_kib() - kib;
        bytes = file_bytes;
        fds = count_entries("/proc/self/fd");
        kib = resident_kib();
    }
done:
    tsr_store_close(&b->ctx, store);
    return result;
}

static void name_store(bench *b, const char *name) {
    snprintf(b->store, sizeof b->store, "%.4000s/%s", b->folder, name);
}

static TSR_RESULT measure(bench *b, uint64_t generations) {
    figures f = {0};
    static const char *const names[] = {"1-mib", "8-mib", "64-mib", "all-mib"};
    const size_t sizes[] = {(size_t)1 << 20, (size_t)8 << 20, (size_t)64 << 20, b->size_bytes};
    name_store(b, "small");
    TRY(&b->ctx, measure_small(b, &f));
    for (size_t i = 0; i < 4; i++) {
        name_store(b, names[i]);
        if (sizes[i] > b->size_bytes) continue;
        size_t tensor = sizes[i] < TENSOR_BYTES ? sizes[i] : TENSOR_BYTES;
        double ignored;
        TRY(&b->ctx, measure_steps(b, sizes[i], tensor, &f.stalls[i + 1], &f.slowdowns[i + 1]));
        strcat(b->store, "-whole");
        TRY(&b->ctx, measure_steps(b, sizes[i], sizes[i], &f.stalls_whole[i + 1], &ignored));
    }
    name_store(b, "large");
    TRY(&b->ctx, measure_large(b, &f));
    name_store(b, "generations");
    TRY(&b->ctx, measure_generations(b, generations, &f));
    printf("{\"persist\": %.3f, \"persist_low\": %.3f, \"persist_high\": %.3f, \"persist_floor\": "
           "%.3f, \"recover\": %.3f, \"recover_low\": %.3f, \"recover_high\": %.3f, "
           "\"recover_huge\": %.3f, "
           "\"recover_floor\": %.3f, \"recover_both\": %.3f, \"commit_4_kib\": %.3f, "
           "\"commit_syncs\": %lu, ",
           f.persist, f.persist_low, f.persist_high, f.persist_floor, f.recover, f.recover_low,
           f.recover_high, f.recover_huge, f.recover_floor, f.recover_both, f.commit,
           f.commit_syncs);
    printf("\"stall_4_kib\": %.5f, \"stall_1_mib\": %.5f, \"stall_8_mib\": %.5f, \"stall_64_mib\": "
           "%.5f, \"stall\": %.5f, \"stall_whole_64_mib\": %.5f, \"stall_whole\": %.5f, "
           "\"stall_whole_floor\": %.3f, \"stall_copied\": %.3f, ",
           f.stalls[0], f.stalls[1], f.stalls[2], f.stalls[3], f.stalls[4], f.stalls_whole[3],
           f.stalls_whole[4], f.stall_whole_floor, f.stall_copied);
    printf("\"slowdown_8_mib\": %.3f, \"slowdown_64_mib\": %.3f, \"slowdown\": %.3f, ",
           f.slowdowns[2], f.slowdowns[3], f.slowdowns[4]);
    printf("\"write_gb_s\": %.3f, \"read_gb_s\": %.3f, \"read_huge_gb_s\": %.3f, "
           "\"read_cores\": %.3f, \"hash_gb_s\": %.3f, \"both_gb_s\": %.3f, \"copy_gb_s\": %.3f, ",
           f.write_gb_s, f.read_gb_s, f.read_huge_gb_s, f.read_cores, f.hash_gb_s, f.both_gb_s,
           f.copy_gb_s);
    printf("\"generations\": {\"count\": %" PRIu64
           ", \"bytes\": %ld, \"fds\": %ld, \"kib\": %ld}}\n",
           generations, f.generation_bytes, f.generation_fds, f.generation_kib);
    return TSR_SUCCESS;
}

int main(int argc, char **argv) {
    char *end = NULL, *end2 = NULL;
    bench b = {.bytes = NULL};
    long mib = argc == 4 ? strtol(argv[2], &end, 10) : 0;
    long generations = argc == 4 ? strtol(argv[3], &end2, 10) : 0;
    if (mib < 8 || mib > MIB_MAX || *end || generations < 100 || generations > GENERATIONS_MAX ||
        *end2 || strlen(argv[1]) > PATH_BYTES - 128) {
        fprintf(stderr, "usage: store_bench FOLDER MIB (8 to %d) GENERATIONS (100 to %d)\n",
                MIB_MAX, GENERATIONS_MAX);
        return TSR_USAGE;
    }
    snprintf(b.folder, sizeof b.folder, "%.3900s/store-bench", argv[1]);
    snprintf(b.file, sizeof b.file, "%.4000s/plain", b.folder);
    snprintf(b.renamed, sizeof b.renamed, "%.4000s/renamed", b.folder);
    b.size_bytes = (size_t)mib << 20;
    b.bytes = large_pages(b.size_bytes);
    b.pipe = large_pages((size_t)PIPE_SLOTS * TSR_HASH_CHUNK_BYTES);
    b.huge = large_pages(BLOCK_BYTES);
    if (!b.bytes || !b.pipe || !b.huge || mkdir(b.folder, 0755)) {
        fprintf(stderr, "store_bench: no memory, or cannot create '%s'\n", b.folder);
        return TSR_IO;
    }
    /* Weyl sequence: no two blocks are equal, and little compresses. */
    for (uint64_t i = 0, state = 0; i + 8 <= b.size_bytes; i += 8) {
        state += 0x9e3779b97f4a7c15u;
        uint64_t finite = state & 0xbfffffffbfffffffu; /* two floats */
        memcpy(b.bytes + i, &finite, sizeof finite);
    }
    memset(b.huge, 0, BLOCK_BYTES);
    memset(b.pipe, 0, (size_t)PIPE_SLOTS * TSR_HASH_CHUNK_BYTES);
    tsr_result result = measure(&b, (uint64_t)generations);
    if (result.code) fprintf(stderr, "store_bench: %s\n", b.ctx.error.text);
    if (nftw(b.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS))
        fprintf(stderr, "store_bench: '%s' is left\n", b.folder);
    free(b.bytes);
    free(b.pipe);
    free(b.huge);
    return (int)result.code;
}
