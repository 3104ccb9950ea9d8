/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifying everything. A blob's own digest is one long chain, its chunks are independent: both are
 * tasks in one queue, the longest chains first, so that the chains run beside the chunks and one
 * large blob still keeps several threads busy.
 */
#include "bundle/internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    THREADS_MAX = 256,
    ONE_THREAD_BYTES = 8 << 20, /* below this, starting threads costs more than it gains */
};
#define WHOLE_BLOB UINT32_MAX

typedef struct task {
    uint32_t blob, chunk; /* chunk: WHOLE_BLOB, or a row of its chunk table */
} task;

typedef struct verify_job {
    tsr_bundle *bundle;
    task *tasks; /* owned */
    size_t task_count;
    uint64_t size_bytes; /* of all blobs */
    atomic_size_t next;
    atomic_bool failed;
} verify_job;

typedef struct worker {
    verify_job *job;
    tsr_ctx ctx;
    pthread_t thread;
    size_t failed_task;
} worker;

static tsr_result run_task(tsr_ctx *ctx, const verify_job *job, const task *t, void *piece) {
    const tsr_blob *blob = &job->bundle->blobs[t->blob];
    if (t->chunk == WHOLE_BLOB) return tsr_blob_stream(ctx, job->bundle, blob, piece, NULL, NULL);
    return tsr_blob_check_chunk(ctx, job->bundle, blob, t->chunk, piece);
}

static tsr_result run_tasks(worker *w, void *piece) {
    verify_job *job = w->job;
    if (!piece) FAIL(&w->ctx, TSR_MEMORY, "no memory to verify '%s'", job->bundle->path);
    while (!atomic_load(&job->failed)) {
        size_t index = atomic_fetch_add(&job->next, 1);
        if (index >= job->task_count) break;
        w->failed_task = index;
        TRY(&w->ctx, run_task(&w->ctx, job, &job->tasks[index], piece));
    }
    return TSR_SUCCESS;
}

static void *work(void *user) {
    worker *w = user;
    void *piece = malloc(TSR_BLOB_PIECE_BYTES);
    tsr_result result = run_tasks(w, piece);
    if (result.code) atomic_store(&w->job->failed, true);
    free(piece);
    return NULL;
}

/* Longest first; of equal ones the first in the file. */
static int compare_sizes(const void *a, const void *b) {
    const tsr_blob *left = *(const tsr_blob *const *)a, *right = *(const tsr_blob *const *)b;
    if (left->size_bytes != right->size_bytes) return left->size_bytes > right->size_bytes ? -1 : 1;
    if (left->offset_bytes != right->offset_bytes)
        return left->offset_bytes < right->offset_bytes ? -1 : 1;
    return memcmp(left->digest.bytes, right->digest.bytes, TSR_DIGEST_BYTES);
}

/* The chains, then the chunks, of all blobs that are reached from the index. */
static tsr_result list_tasks(tsr_ctx *ctx, verify_job *job, uint64_t *out_blob_count) {
    tsr_bundle *bundle = job->bundle;
    const tsr_blob **blobs = calloc(bundle->blob_count, sizeof *blobs);
    size_t count = 0;
    uint64_t task_count = 0;
    for (size_t i = 0; blobs && i < bundle->blob_count; i++) {
        const tsr_blob *blob = &bundle->blobs[i];
        if (!blob->used) continue;
        blobs[count++] = blob;
        job->size_bytes += blob->size_bytes;
        task_count += 1 + (blob->chunks ? tsr_chunk_count(blob->size_bytes) : 0);
    }
    job->tasks = calloc((size_t)task_count, sizeof *job->tasks);
    if (!blobs || !job->tasks) {
        free(blobs);
        FAIL(ctx, TSR_MEMORY, "no memory to verify '%s'", bundle->path);
    }
    qsort(blobs, count, sizeof *blobs, compare_sizes);
    for (size_t i = 0; i < count; i++)
        job->tasks[job->task_count++] = (task){(uint32_t)(blobs[i] - bundle->blobs), WHOLE_BLOB};
    for (size_t i = 0; i < count; i++)
        for (uint64_t chunk = 0; blobs[i]->chunks && chunk < tsr_chunk_count(blobs[i]->size_bytes);
             chunk++)
            job->tasks[job->task_count++] =
                (task){(uint32_t)(blobs[i] - bundle->blobs), (uint32_t)chunk};
    free(blobs);
    *out_blob_count = count;
    return TSR_SUCCESS;
}

static unsigned thread_count(const verify_job *job, unsigned wanted) {
    cpu_set_t cpus;
    if (job->size_bytes < ONE_THREAD_BYTES) return 1;
    if (!wanted)
        wanted = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
    if (wanted > THREADS_MAX) wanted = THREADS_MAX;
    return wanted < job->task_count ? wanted : (unsigned)job->task_count;
}

/* This thread is the first worker; one that cannot be started is done without. */
static tsr_result run_job(tsr_ctx *ctx, verify_job *job, unsigned threads) {
    worker *workers = calloc(threads, sizeof *workers);
    const worker *failed = NULL;
    unsigned started = 1;
    if (!workers) FAIL(ctx, TSR_MEMORY, "no memory to verify '%s'", job->bundle->path);
    for (unsigned i = 0; i < threads; i++)
        workers[i] = (worker){.job = job, .ctx = tsr_ctx_fork(ctx)};
    while (started < threads &&
           pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0)
        started++;
    work(&workers[0]);
    for (unsigned i = 1; i < started; i++) pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < started; i++)
        if (workers[i].ctx.error.code && (!failed || workers[i].failed_task < failed->failed_task))
            failed = &workers[i];
    tsr_result result = failed ? tsr_error_adopt(ctx, &failed->ctx) : TSR_SUCCESS;
    free(workers);
    return result;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

tsr_result tsr_bundle_verify(tsr_ctx *ctx, tsr_bundle *bundle, unsigned threads,
                             tsr_bundle_verify_report *out_report) {
    verify_job job = {.bundle = bundle};
    tsr_bundle_verify_report report = {0};
    double start = seconds_now();
    TRY(ctx, list_tasks(ctx, &job, &report.blob_count));
    tsr_result result = run_job(ctx, &job, thread_count(&job, threads));
    free(job.tasks);
    TRY(ctx, result);
    report.verified_bytes = job.size_bytes;
    report.seconds = seconds_now() - start;
    *out_report = report;
    return TSR_SUCCESS;
}
