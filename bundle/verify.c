/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifies everything. Chunks are independent; a blob's own digest is one long hash chain. Both are
 * tasks in one queue, the longest chains first, so that chains and chunks run concurrently and one
 * large blob still keeps several threads busy.
 */
#include "bundle/internal.h"
#include "runtime/base/pool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WHOLE_BLOB UINT32_MAX

typedef struct task {
    uint32_t blob, chunk; /* chunk: WHOLE_BLOB, or a row of its chunk table */
} task;

typedef struct verify_job {
    const tsr_bundle *bundle;
    task *tasks; /* owned */
    size_t task_count;
    uint64_t size_bytes; /* total of all blobs */
} verify_job;

static tsr_result run_task(tsr_ctx *ctx, void *user, size_t index, void *block) {
    const verify_job *job = user;
    const task *t = &job->tasks[index];
    const tsr_blob *blob = &job->bundle->blobs[t->blob];
    if (t->chunk == WHOLE_BLOB) return tsr_blob_stream(ctx, job->bundle, blob, block, NULL, NULL);
    return tsr_blob_check_chunk(ctx, job->bundle, blob, t->chunk, block);
}

/* Longest first; equal sizes in the order of the file. */
static int compare_sizes(const void *a, const void *b) {
    const tsr_blob *left = *(const tsr_blob *const *)a, *right = *(const tsr_blob *const *)b;
    if (left->size_bytes != right->size_bytes) return left->size_bytes > right->size_bytes ? -1 : 1;
    if (left->offset_bytes != right->offset_bytes)
        return left->offset_bytes < right->offset_bytes ? -1 : 1;
    return memcmp(left->digest.bytes, right->digest.bytes, TSR_DIGEST_BYTES);
}

/* Lists the chains, then the chunks, of all blobs that are reachable from the index. */
static tsr_result list_tasks(tsr_ctx *ctx, verify_job *job, bool full, uint64_t *out_blob_count) {
    const tsr_bundle *bundle = job->bundle;
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
        free(job->tasks);
        FAIL(ctx, TSR_MEMORY, "no memory to verify '%s'", bundle->path);
    }
    qsort(blobs, count, sizeof *blobs, compare_sizes);
    for (size_t i = 0; i < count; i++)
        if (full || !blobs[i]->chunks)
            job->tasks[job->task_count++] =
                (task){(uint32_t)(blobs[i] - bundle->blobs), WHOLE_BLOB};
    for (size_t i = 0; i < count; i++)
        for (uint64_t chunk = 0; blobs[i]->chunks && chunk < tsr_chunk_count(blobs[i]->size_bytes);
             chunk++)
            job->tasks[job->task_count++] =
                (task){(uint32_t)(blobs[i] - bundle->blobs), (uint32_t)chunk};
    free(blobs);
    *out_blob_count = count;
    return TSR_SUCCESS;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static tsr_result verify(tsr_ctx *ctx, const tsr_bundle *bundle, bool full, unsigned threads,
                         tsr_bundle_verify_report *out_report) {
    verify_job job = {.bundle = bundle};
    tsr_bundle_verify_report report = {0};
    double start = seconds_now();
    TRY(ctx, list_tasks(ctx, &job, full, &report.blob_count));
    const tsr_pool_job pool = {.task_count = job.task_count,
                               .size_bytes = job.size_bytes,
                               .threads = threads,
                               .scratch_bytes = TSR_BLOB_BLOCK_BYTES,
                               .run = run_task,
                               .user = &job,
                               .subject = bundle->path};
    tsr_result result = tsr_pool_run(ctx, &pool);
    free(job.tasks);
    TRY(ctx, result);
    report.verified_bytes = job.size_bytes;
    report.seconds = seconds_now() - start;
    *out_report = report;
    return TSR_SUCCESS;
}

tsr_result tsr_bundle_verify(tsr_ctx *ctx, tsr_bundle *bundle, unsigned threads,
                             tsr_bundle_verify_report *out_report) {
    return verify(ctx, bundle, false, threads, out_report);
}

tsr_result tsr_bundle_verify_full(tsr_ctx *ctx, tsr_bundle *bundle, unsigned threads,
                                  tsr_bundle_verify_report *out_report) {
    return verify(ctx, bundle, true, threads, out_report);
}
